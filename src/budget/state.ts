import type { Refusal, SendOutcome, WaitReason } from '../contract/budget-messages.js';
import type { Lane } from '../contract/choices.js';
import { hash64 } from '../contract/text.js';
import type { BudgetSettings, JobFingerprint } from '../contract/protocol.js';

/** A follow-up in line. */
export interface Waiter {
  workflowId: string;
  runId: string;
  sendNumber: number;
  /** {@link jobKey} of its job. */
  job: string;
  lane: Lane;
  leaseMs: number;
  drainMs: number;
  /** Order of the follow-up's first ask; kept when its send is repeated. */
  arrival: number;
  messageTag: string;
  /** The reason to wait that the follow-up knows. */
  told: WaitReason;
}

/** A send that may be under way. */
export interface Grant {
  workflowId: string;
  runId: string;
  sendNumber: number;
  job: string;
  grantedAtMs: number;
  /** The send has ended, or never starts, after this time from the grant. */
  leaseMs: number;
  /** No byte of it arrives after this. */
  overAtMs: number;
}

/** The latest send that was granted to a follow-up. */
export interface Known {
  runId: string;
  sendNumber: number;
  grantedAtMs: number;
  overAtMs: number;
  /** `null` until it is known. */
  outcome: SendOutcome | null;
  /** When it was known, by the follow-up's clock. */
  outcomeAtMs: number;
  /** Empty if the budget never heard it. */
  messageTag: string;
  arrival: number;
  /** The grant has answered an ask, so it may be used. One that was only signalled is lost if nobody receives it. */
  isTaken: boolean;
  /** The run has ended. */
  ended?: true;
}

/** Who may write to a job. */
export interface Turn {
  /** The follow-up that has the turn. */
  owner?: string;
  /** When the turn is over, if its end was not seen. */
  untilMs?: number;
  /** {@link followUpKey} of the follow-up that has the turn or had it last. */
  latest: string;
  /** How the job looked at the end of its last turn. */
  lastTurn?: JobFingerprint;
}

/** A send, for people. */
export interface SendRecord {
  workflowId: string;
  sendNumber: number;
  grantedAtMs: number;
  settledAtMs?: number;
  outcome?: SendOutcome;
}

/** The state of a budget. Plain JSON, because continue-as-new carries it. */
export interface BudgetState {
  settings: BudgetSettings;
  /** The most that the latest worker's configuration allows in a window. */
  maxLimit: number;
  /** How long bytes may arrive after the lease, by the configuration of the latest worker. */
  drainMs: number;
  /** Nothing is granted until the sends that the budget may not know are booked. */
  isCounting: boolean;
  /** A follow-up that started later and is not known was never granted anything. */
  rememberedSinceMs: number;
  arrivals: number;
  /** For metrics: messages that were let through, and those that the service answered with 429. */
  counts: { grants: number; limited: number };
  grantsSinceBatch: number;
  /** In the order of their arrival. */
  waiters: Waiter[];
  grants: Grant[];
  /** Of each send that is over, from when its slot is held for a window, in epoch milliseconds. */
  spent: number[];
  /** Likewise, of each send that the service refused for a reason that concerns the whole project. */
  refused: number[];
  /** When the follow-ups that keep others from their job are next asked whether they still run. */
  checkOwnersAtMs: number;
  /** By {@link followUpKey}, the latest last. */
  known: Record<string, Known>;
  /** By {@link jobKey}, the latest last. */
  turns: Record<string, Turn>;
  /** The latest sends, the newest last. */
  lastSends: SendRecord[];
  operatorPause?: { sinceMs: number; untilMs?: number; note?: string };
  /** The service refuses messages. After `untilMs` one send probes, and the others follow when it is accepted. */
  servicePause?: { reason: Refusal; sinceMs: number; untilMs: number; step: number };
  /** How many messages in a window the service accepts, as far as its refusals tell. */
  learned?: { limit: number; step: number; refusals: number; growAtMs: number };
}

/** Hashes are shorter than ids, and never equal to a number or a name of a prototype, which would lose their order. */
export const followUpKey = hash64;

/** Key of the job in `follow-up/{projectId}/{jobId}/{key}`. */
export function jobKey(workflowId: string): string {
  return hash64(workflowId.split('/')[2] ?? '');
}

/** The most that any worker's configuration may allow. */
const MAX_LIMIT = 10_000;

export function newState(settings: BudgetSettings, nowMs: number): BudgetState {
  return {
    settings,
    maxLimit: MAX_LIMIT,
    drainMs: 0,
    isCounting: true,
    rememberedSinceMs: nowMs,
    arrivals: 0,
    counts: { grants: 0, limited: 0 },
    grantsSinceBatch: 0,
    waiters: [],
    grants: [],
    spent: [],
    refused: [],
    checkOwnersAtMs: 0,
    known: {},
    turns: {},
    lastSends: [],
  };
}

/** Largest state in characters of JSON. Temporal refuses inputs above 2 MiB, and warns above 512 KiB. */
const MAX_CARRIED_LENGTH = 1_000_000;
/** Fewest sends that are listed for people. */
export const MIN_LAST_SENDS = 100;
/** Fewest follow-ups that a state remembers, whatever its size: far more than can be under way. */
const MIN_KNOWN = 200;

/** Makes a state small enough for continue-as-new. With long ids, the oldest memories do not fit. */
export function trim(state: BudgetState): void {
  if (JSON.stringify(state).length <= MAX_CARRIED_LENGTH) return;
  state.lastSends = state.lastSends.slice(-MIN_LAST_SENDS);
  let excess = JSON.stringify(state).length - MAX_CARRIED_LENGTH;
  const isTooMuch = (record: Record<string, unknown>, key: string) => {
    if (excess <= 0) return false;
    excess -= JSON.stringify({ [key]: record[key] }).length;
    return true;
  };
  const turns = Object.keys(state.turns);
  const [over, live] = [
    turns.filter((key) => !state.turns[key]?.owner),
    turns.filter((key) => state.turns[key]?.owner),
  ];
  const known = Object.keys(state.known).slice(0, -MIN_KNOWN);
  forget(
    state.turns,
    over.filter((key) => isTooMuch(state.turns, key)),
  );
  forgetKnown(
    state,
    known.filter((key) => isTooMuch(state.known, key)),
  );
  forget(
    state.turns,
    live.filter((key) => isTooMuch(state.turns, key)),
  );
}

function forget(record: Record<string, unknown>, keys: readonly string[]): void {
  for (const key of keys) Reflect.deleteProperty(record, key);
}

/** Forgets follow-ups, and notes since when the budget remembers all of them. */
export function forgetKnown(state: BudgetState, keys: readonly string[]): void {
  for (const key of keys) {
    state.rememberedSinceMs = Math.max(state.rememberedSinceMs, state.known[key]?.grantedAtMs ?? 0);
  }
  forget(state.known, keys);
}

/** Forgets the turns that are kept beyond these numbers, the oldest first, and those that are over before all others. */
export function forgetTurns(state: BudgetState, { mostOver, most }: { mostOver: number; most: number }): void {
  const keys = Object.keys(state.turns);
  const over = keys.filter((key) => state.turns[key]?.owner === undefined);
  const keptOver = Math.max(0, Math.min(mostOver, most - (keys.length - over.length)));
  forget(state.turns, over.slice(0, Math.max(0, over.length - keptOver)));
  if (keys.length - over.length > most) forget(state.turns, Object.keys(state.turns).slice(0, -most));
}
