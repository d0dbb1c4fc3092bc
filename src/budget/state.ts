import type { Refusal, SendOutcome, WaitReason } from '../contract/budget.js';
import type { Lane } from '../contract/choices.js';
import { hash64 } from '../contract/text.js';
import type { BudgetSettings, JobFingerprint } from '../contract/protocol.js';

/** Names a send. A grant of it is for this run. */
export interface SendId {
  workflowId: string;
  runId: string;
  sendNumber: number;
}

/** A follow-up in line. */
export interface Waiter extends SendId {
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
  /** The service refused its message more than once. It is not granted before, except as a probe. */
  held?: { reason: Refusal; untilMs: number };
}

/** A send that may be under way. */
export interface Grant extends SendId {
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
  /** How often the service refused the message, and what it said last. */
  refusals?: { reason: Refusal; count: number; retryAfterMs?: number };
  /** The run has ended. */
  ended?: true;
  /** Temporal's list showed that it may have been sent. `sendNumber` is the least that it can have been. */
  isCounted?: true;
}

/** Who may write to a job. */
export interface Turn {
  /** The follow-up that has the turn. */
  owner?: string;
  /** The run of it that came back to the turn: a late word of a run before does not end it. */
  runId?: string;
  /** When the turn is over, if its end was not seen. */
  untilMs?: number;
  /** {@link followUpKey} of the follow-up that has the turn or had it last. Empty if a count could not tell. */
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
  outcome?: SendOutcome | 'taken';
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
  /** Likewise, of the latest sends whose slots are free again, in order: a longer window holds them once more. */
  freed: number[];
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
  /** Refusals since the service last took or rejected a message. */
  refusedInARow: number;
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
    refusedInARow: 0,
    waiters: [],
    grants: [],
    spent: [],
    refused: [],
    freed: [],
    checkOwnersAtMs: 0,
    known: {},
    turns: {},
    lastSends: [],
  };
}

/** Fewest sends that are listed for people. */
export const MIN_LAST_SENDS = 100;
