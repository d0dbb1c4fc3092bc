import type { GetJobOutcome, SendMessageOutcome } from '../agent-jobs/index.js';
import type {
  FailureDetails,
  FailureType,
  FollowUpProgress,
  FollowUpResult,
  Lane,
  SendOutcome,
} from '../contract/index.js';
import type { AcquireAnswer, BudgetWord, GrantedBefore, JobFingerprint } from '../contract/protocol.js';

/** What a step waits for: it calls `resume` once. */
export type Wait = (resume: () => void) => void;

/**
 * Code that yields when it waits and finally returns a `T`. Temporal and the simulation run it, each in its own time.
 */
export type Steps<T> = Generator<Wait, T, void>;

export type GetJobResult = GetJobOutcome & {
  /**
   * Start-to-close timeout of the send that may follow. The worker's configuration sets it, which a workflow cannot
   * see.
   */
  sendStartToCloseMs?: number;
  /** The worker encrypts data: search attributes, which stay readable, get no link. */
  linksArePrivate?: true;
};

/** Why a job cannot be read: it does not exist, the key is refused, or reads keep failing. */
export type Trouble = 'notFound' | 'key' | 'unreadable';

/** What people are shown of a job. A watch ends when it changes. */
export interface Shown extends JobFingerprint {
  trouble: Trouble | null;
}

/** What a watch looks for, and when. All times are epoch milliseconds of the server. */
export interface WatchOrder {
  projectId: string;
  jobId: string;
  since: Shown;
  poll: { maxIntervalMs: number; backoffCoefficient: number };
  /** The wait before the first look. Each later one is `backoffCoefficient` times as long. */
  intervalMs: number;
  /** Failed reads in a row before the watch. */
  failures: number;
  startedAtMs: number;
  notBeforeMs: number;
  /** The watch ends with a look at this time even if nothing is new. */
  untilMs: number;
}

export interface WatchResult {
  read: GetJobResult;
  looks: number;
  /** The wait that would have come next, without jitter. */
  intervalMs: number;
  /** Failed reads in a row, including `read`. */
  failures: number;
}

/** An ask for a slot and, where it is granted, the send. */
export interface SendFollowUpInput {
  projectId: string;
  jobId: string;
  lane: Lane;
  sendNumber: number;
  /** Give or keep a place, but do not send. */
  hold: boolean;
  /** Leave, unless something was granted. */
  withdraw?: true;
  firstRunStartedAtMs: number;
  /** Whether an earlier ask for this send may have been granted. */
  grantedBefore?: GrantedBefore;
  /** Number of asks so far, including this one; missing if the run replaces another. */
  askNumber?: number;
  /** No earlier ask has sent this number or can send it. */
  provenNotSent?: true;
  /** As the budget last said. */
  ledgerSinceMs?: number;
  messageTag: string;
}

/** How a send ended, by this invocation or an earlier one. */
export interface SendOutcomeResult extends Omit<SendMessageOutcome, 'outcome'> {
  kind: 'outcome';
  outcome: SendOutcome;
  /** In epoch milliseconds, by the budget's time. */
  grantedAtMs?: number;
  /** If the budget had recorded the outcome: when the service answered, as far as known. In epoch milliseconds. */
  recordedAtMs?: number;
  /** How long bytes of this send may still be on their way, in milliseconds from now. */
  mayArriveForMs: number;
  lastJobSeen?: JobFingerprint;
  messageTag?: string;
}

/**
 * The result of an ask. `proven`: the budget itself answered. `grantedBefore`: an earlier attempt was granted and may
 * have sent. `provenNotSent`: whatever the budget may have granted, neither this ask nor an earlier one sends.
 */
export type SendFollowUpResult =
  | SendOutcomeResult
  | (Exclude<AcquireAnswer, { kind: 'granted' } | { kind: 'done' }> & {
      proven: boolean;
      grantedBefore?: GrantedBefore;
      provenNotSent?: true;
      ledgerSinceMs?: number;
    });

/** How a watch ended: `seen`, with the read that ended it, or `stopped`, with the number of looks as far as known. */
export type WatchEnd = ({ kind: 'seen' } & WatchResult) | { kind: 'stopped'; looks: number };

export type Ending =
  | { kind: 'result'; result: FollowUpResult }
  | { kind: 'failure'; type: FailureType; message: string; details: FailureDetails }
  /** Another run continues from the state. */
  | { kind: 'continueAsNew' };

/** Search attributes. `null`: not set. */
export interface ShownAttributes {
  projectId: string;
  jobId: string;
  state: string;
  jobStatus: string | null;
  prLink: string | null;
}

/** What the flow needs from the environment it runs in. */
export interface FollowUpPort {
  readonly workflowId: string;
  /**
   * Whether this run replaces another, after a reset or by a retry policy. What it was told before then proves nothing:
   * the run that it replaces may have continued and sent the message.
   */
  readonly replacesRun: boolean;
  /** In epoch milliseconds. */
  nowMs(): number;
  /** From 0 to 1. */
  random(): number;
  /** Whether the run is so long that another should continue. */
  continueAsNewIsDue(): boolean;
  /**
   * Waits for `ms`, or until `until` holds. It is checked whenever the flow itself changes, for example by a cancel.
   */
  sleep(ms: number, summary: string, until: () => boolean): Steps<void>;
  /** Reads the job. A read that cannot be made counts as failed. */
  getJob(summary: string, beforeSend: boolean): Steps<GetJobResult>;
  /** Starts a watch: reads the job repeatedly until something is new or the time has come. One watch at a time. */
  startWatch(order: WatchOrder): void;
  /** Waits for the end of the watch, or until `until` holds. */
  awaitWatch(until: () => boolean): Steps<WatchEnd | undefined>;
  /** Ends the watch, after any look under way. */
  stopWatch(): Steps<WatchEnd>;
  /** Asks, and sends if the ask is granted. It is repeated until there is an answer, and never cut short. */
  send(input: SendFollowUpInput, options: { startToCloseMs: number; summary: string }): Steps<SendFollowUpResult>;
  /** Tells the budget something. Returns whether a budget was there to hear it. */
  tell(word: BudgetWord): Steps<boolean>;
  /** Shows the state of the follow-up. `changed` has the search attributes that differ from before. */
  show(progress: FollowUpProgress, changed: Partial<ShownAttributes>): void;
}
