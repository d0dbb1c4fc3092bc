import type {
  AgentJob,
  EndedStanding,
  FollowUpProgress,
  FollowUpResult,
  FollowUpSettings,
  GrantedBefore,
  JobFingerprint,
  ToldPause,
} from '../contract/index.js';
import type { ShownAttributes, Trouble } from './port.js';

/** Before the send, and the send. */
export interface Asking {
  kind: 'asking';
  /** The job as the latest read showed it; empty before the first. */
  baseline: AgentJob;
  /** When it last asked to keep its place while the job is at work. 0: never. */
  heldAtMs: number;
  /** Reads in a row that failed. */
  failures: number;
  notFoundInARow: number;
  /** Sends in a row that never left: each waits longer than the one before. */
  notSentInARow: number;
  intervalMs: number;
}

/** The message was granted a send, and it is not known whether it was delivered. */
export interface Reconciling {
  kind: 'reconciling';
  baseline: AgentJob;
  grantedAtMs: number;
  /** Bytes may arrive, and the settle time runs, until then. */
  untilMs: number;
  /** The budget has not said for certain that the outcome is unknown; ask again before concluding. */
  askAgainFirst: boolean;
  operatorWord: 'sent' | 'notSent' | null;
  intervalMs: number;
}

/** The message counts as delivered, and the agent works. */
export interface Watching {
  kind: 'watching';
  baseline: AgentJob;
  delivery: FollowUpResult['delivery'];
  sentAtMs: number;
  observedActive: boolean;
  /** The look before showed a terminal status that was believed. */
  terminalSeen: boolean;
  /** Whether there was a look at all. */
  hasLooked: boolean;
  trouble: Trouble | null;
  notFoundInARow: number;
  intervalMs: number;
  /** From a Retry-After: no look before then, unless somebody asks for one. */
  notBeforeMs: number;
}

/** Where a follow-up stands, with what it has to know there. */
export type Phase = Asking | Reconciling | Watching;

/** What people are shown beside the job. */
export type View =
  | { state: 'sending' }
  | EndedStanding
  | { state: 'polling' | 'reconciling'; nextLookAtMs: number | null }
  | {
      state: 'waiting-for-budget' | 'waiting-for-job' | 'blocked';
      waitReason: NonNullable<FollowUpProgress['waitReason']>;
      /** 0: none. */
      position: number;
      expectedSendAtMs: number | null;
      /** When it tries again by itself. */
      nextTryAtMs?: number;
      pause?: ToldPause;
    };

/** Everything that a follow-up carries through continue-as-new. Plain JSON. */
export interface FollowUpState {
  phase: Phase;
  view: View;
  /** When that view was shown. */
  viewedAtMs: number;
  firstRunStartedAtMs: number;
  sendNumber: number;
  /** Asks in a row that were overtaken. Many of them mean that the server's clock was set back. */
  staleAsks: number;
  /** An earlier send of this follow-up ended unknown and was repeated. */
  earlierSendUnknown: boolean;
  /** Asks of all runs. */
  askCount: number;
  /**
   * Whether it is certain that nothing of the current send number has been sent by an ask that was made: there was none,
   * or the budget's own answer to the latest was a place in the queue, which fences off all before it, or each has ended
   * at its first attempt without a grant.
   */
  provenNotSent: boolean;
  /** Whether an earlier attempt for the current send number was granted, though how it ended was not heard. */
  grantedBefore?: GrantedBefore;
  /** A run before this one took the place of another, which may have gone on and sent. */
  replacesRun: boolean;
  /** The budget's `ledgerSinceMs`, as it said it last. */
  ledgerSinceMs?: number;
  /** Tag of the message that was let through, where the budget had recorded it: the baseline may be from after the send. */
  recordedTag?: string;
  /** Whether the budget may know this follow-up, so that it has to be told its end. */
  knownToBudget: boolean;
  sendStartToCloseMs: number;
  /** How the turn before ended, as the budget remembers it. */
  lastTurn?: JobFingerprint;
  /** Reads since the send. */
  polls: number;
  /** The latest read was refused for its key, and the budget was told so at that time. */
  keyRefusedAtMs?: number;
  /** `isSinceSend`: by a read after the message was granted a send, or by the answer to the message. */
  seen?: { job: AgentJob; atMs: number; isSinceSend: boolean };
  lastError?: { atMs: number; message: string };
  pollNow: boolean;
  /** As last written: each change costs an event. */
  attributes: Partial<ShownAttributes>;
}

/** What is known of a job that was never read: nothing that it shows later proves anything. */
const NEVER_READ: AgentJob = {};

/** State of a follow-up's first run. */
export function newFollowUpState(options: {
  startedAtMs: number;
  isFirstRun: boolean;
  settings: FollowUpSettings;
}): FollowUpState {
  return {
    phase: newAsking(NEVER_READ, options.settings),
    view: { state: 'sending' },
    viewedAtMs: options.startedAtMs,
    firstRunStartedAtMs: options.startedAtMs,
    sendNumber: 1,
    staleAsks: 0,
    askCount: 0,
    earlierSendUnknown: false,
    provenNotSent: options.isFirstRun,
    replacesRun: false,
    knownToBudget: !options.isFirstRun,
    // Until the worker has said its own: lease of the default send timeout (60 s) and 15 s.
    sendStartToCloseMs: 75_000,
    polls: 0,
    pollNow: false,
    attributes: {},
  };
}

/** The phase before a send. */
export function newAsking(baseline: AgentJob, { poll }: FollowUpSettings): Asking {
  return {
    kind: 'asking',
    baseline,
    heldAtMs: 0,
    failures: 0,
    notFoundInARow: 0,
    notSentInARow: 0,
    intervalMs: poll.initialIntervalMs,
  };
}

/** The phase after a send, whose delivery is known or taken for granted. */
export function newWatching(
  baseline: AgentJob,
  how: Pick<Watching, 'delivery' | 'sentAtMs' | 'intervalMs'> & { observedActive?: boolean },
): Watching {
  return {
    kind: 'watching',
    baseline,
    observedActive: false,
    terminalSeen: false,
    hasLooked: false,
    trouble: null,
    notFoundInARow: 0,
    notBeforeMs: 0,
    ...how,
  };
}
