import { hash64 } from '../common/index.js';
import type { Lane, Refusal, SendOutcome, WaitReason } from '../contract/index.js';
import type { BudgetSettings, JobFingerprint } from '../protocol/index.js';
import { newPace, type Pace, type Probe } from './pace.js';

/** Identifies a send and the run that may make it. */
export interface SendId {
  workflowId: string;
  runId: string;
  sendNumber: number;
}

export interface Waiter extends SendId {
  job: string;
  lane: Lane;
  leaseMs: number;
  drainMs: number;
  /** Start of the follow-up's first run. The line is in this order. */
  startedAtMs: number;
  messageTag: string;
  /** The reason to wait that the follow-up last received. */
  lastReason: WaitReason;
  /** Set while its job works on a message that this budget does not know. */
  isJobAtWork?: true;
  refusals?: MessageRefusals;
}

/** A follow-up that found no place for its job. */
export interface TurnedAway {
  workflowId: string;
  job: string;
  lane: Lane;
  startedAtMs: number;
  /** When it was called back because there was a place. */
  calledAtMs?: number;
}

/** What the service has refused of one message. */
export interface MessageRefusals {
  reason: Refusal;
  /** HTTP status of the last one, if known. */
  statusCode?: number;
  count: number;
  lastAtMs: number;
  retryAfterMs?: number;
  /** Set if another message was accepted between two of them. */
  isAlone?: true;
}

export interface Grant extends SendId {
  grantedAtMs: number;
  /** Time from the grant after which the send has ended or never starts. */
  leaseMs: number;
  /** No byte of it arrives later. */
  overAtMs: number;
}

export interface LatestSend {
  runId: string;
  sendNumber: number;
  grantedAtMs: number;
  overAtMs: number;
  /** Missing until it is reported. */
  outcome?: SendOutcome;
  /** When it became known, by Temporal's clock. */
  outcomeAtMs?: number;
  /** Empty if the budget never received it. */
  messageTag: string;
  /** Whether the grant was the reply to an ask. One that was only signalled is lost if no run receives it. */
  isClaimed: boolean;
  refusals?: MessageRefusals;
  probe?: Probe;
  ended?: true;
  /** Its time in Temporal's list, if the list showed that it may have sent. `sendNumber` is then the lowest possible. */
  listedAtMs?: number;
}

/** The right to send to a job. */
export interface Turn {
  /** Workflow id of the follow-up that has the turn. */
  owner?: string;
  /** The run that took the turn back. An end report of any other run does not end the turn. */
  runId?: string;
  /** When the turn ends, if its end was not seen. */
  untilMs?: number;
  /** {@link followUpKey} of the turn's current or last follow-up. Empty if a count could not determine it. */
  latest: string;
  /** The job at the end of the previous turn. */
  previousEnd?: JobFingerprint;
}

export interface SendRecord {
  workflowId: string;
  sendNumber: number;
  grantedAtMs: number;
  outcomeAtMs?: number;
  outcome?: SendOutcome | 'taken';
  statusCode?: number;
}

/** The state of a budget: plain JSON, because continue-as-new carries it. */
export interface BudgetState {
  settings: BudgetSettings;
  /** Highest limit that the latest worker's configuration allows. */
  maxLimit: number;
  /** How long bytes may arrive after the lease, by the latest worker's configuration. */
  drainMs: number;
  /** While this is set, the budget grants nothing: it counts sends that it may not know. */
  isCounting: boolean;
  /** The budget knows every grant since then. A follow-up that started later and is unknown has had none. */
  rememberedSinceMs: number;
  /** Totals for metrics: grants, and messages that the service answered with 429. */
  counts: { grants: number; limited: number };
  grantsSinceBatch: number;
  waiters: Waiter[];
  /** Follow-ups that found no place for their job. They get the next places, in the order of their starts. */
  turnedAway: TurnedAway[];
  grants: Grant[];
  /** For each send that is over, the time from which its slot is in use for one window, in epoch milliseconds. */
  spent: number[];
  /** The same times for slots that are free again, in order. If the window gets longer, these slots are in use again. */
  freed: number[];
  /** When follow-ups that block others' jobs are next checked. */
  checkOwnersAtMs: number;
  /** By {@link followUpKey}, latest last. */
  latestSends: Record<string, LatestSend>;
  /** By {@link jobKey}, latest last. */
  turns: Record<string, Turn>;
  /** The project's sends, for people. Newest last. */
  shownSends: SendRecord[];
  operatorPause?: { sinceMs: number; untilMs?: number; note?: string };
  pace: Pace;
}

/** A hash, because ids are longer, and because a number as key would lose its order. */
export const followUpKey = hash64;

/** Key of the job in `follow-up/{projectId}/{jobId}/{key}`. */
export function jobKey(workflowId: string): string {
  return hash64(workflowId.split('/')[2] ?? '');
}

export type InJobLine = Pick<Waiter, 'job' | 'lane'>;

/** Those of one job and lane wait for each other. */
export const jobLineOf = ({ job, lane }: InJobLine): string => `${lane} ${job}`;

/** Highest limit that a worker's configuration may allow. */
const MAX_LIMIT = 10_000;
/** The default of `FOLLOW_UP_DRAIN`, until an ask says the worker's. */
const DEFAULT_DRAIN_MS = 120_000;

export function newState(settings: BudgetSettings, nowMs: number): BudgetState {
  return {
    settings,
    maxLimit: MAX_LIMIT,
    drainMs: DEFAULT_DRAIN_MS,
    isCounting: true,
    rememberedSinceMs: nowMs,
    counts: { grants: 0, limited: 0 },
    grantsSinceBatch: 0,
    pace: newPace(),
    waiters: [],
    turnedAway: [],
    grants: [],
    spent: [],
    freed: [],
    checkOwnersAtMs: 0,
    latestSends: {},
    turns: {},
    shownSends: [],
  };
}

export function isSameSend(a: SendId, b: SendId): boolean {
  return a.workflowId === b.workflowId && a.runId === b.runId && a.sendNumber === b.sendNumber;
}

export function latestSendOf(state: BudgetState, workflowId: string): LatestSend | undefined {
  return state.latestSends[followUpKey(workflowId)];
}

/** Sets a key's value and moves the key to the end: the first keys are forgotten first. */
export function put<T>(record: Record<string, T>, key: string, value: T): void {
  Reflect.deleteProperty(record, key);
  record[key] = value;
}
