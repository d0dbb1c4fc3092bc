import type { GetJobOutcome, SendMessageOutcome } from '../agent-jobs/index.js';
import type {
  AcquireAnswer,
  BudgetWord,
  FailureDetails,
  FailureType,
  FollowUpProgress,
  FollowUpResult,
  GrantedBefore,
  JobFingerprint,
  Lane,
  SendOutcome,
} from '../contract/index.js';

/** What a step waits for: something that resumes it once. */
export type Wait = (resume: () => void) => void;

/** Code that yields where it waits, and returns a `T`. Temporal and the simulation run it, each in its own time. */
export type Steps<T> = Generator<Wait, T, void>;

/** What one read of the job gave. */
export type GetJobResult = GetJobOutcome & {
  /**
   * Start-to-close timeout of the send that may follow. It is the worker's configuration, which a workflow cannot see.
   */
  sendStartToCloseMs?: number;
};

/** What keeps a job from being read: there is none, the key is refused, or reads go on failing. */
export type Trouble = 'notFound' | 'key' | 'unreadable';

/** What people are shown of a job. A watch ends when that changes. */
export interface Shown extends JobFingerprint {
  trouble: Trouble | null;
}

/** What a watch looks for, and when. Instants are epoch milliseconds of the server. */
export interface WatchOrder {
  projectId: string;
  jobId: string;
  /** What people are shown now. */
  since: Shown;
  poll: { maxIntervalMs: number; backoffCoefficient: number };
  /** The wait before the first look. Each later one is `backoffCoefficient` times as long. */
  intervalMs: number;
  startedAtMs: number;
  /** No look before then. */
  notBeforeMs: number;
  /** The watch ends with a look at that time, even though nothing is new. */
  untilMs: number;
}

/** How a watch has ended. */
export interface WatchResult {
  read: GetJobResult;
  looks: number;
  /** The wait that would have come next, without jitter. */
  intervalMs: number;
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
  /** Start of the follow-up's first run, in epoch milliseconds. */
  firstRunStartedAtMs: number;
  /** Whether an earlier ask for this send may have been granted. */
  grantedBefore?: GrantedBefore;
  /** Asks so far, with this one; missing where the run replaces another. */
  askNumber?: number;
  /** No ask before this one has sent this number, or can. */
  provenNotSent?: true;
  /** As the budget said it last. */
  ledgerSinceMs?: number;
  messageTag: string;
}

/** How a send ended, by this invocation or an earlier one. */
export interface SendOutcomeResult extends Omit<SendMessageOutcome, 'outcome'> {
  kind: 'outcome';
  outcome: SendOutcome;
  /** In epoch milliseconds, by the budget's time. */
  grantedAtMs?: number;
  /**
   * Where the budget had recorded it: when the service answered, or as near as is still known. In epoch milliseconds.
   */
  recordedAtMs?: number;
  /** How long bytes of this send may still be on their way, in milliseconds from this answer. */
  mayArriveForMs: number;
  lastJobSeen?: JobFingerprint;
  messageTag?: string;
}

/**
 * What an ask came to. `proven`: the budget itself answered. `grantedBefore`: an earlier attempt was granted, and may
 * have sent. `provenNotSent`: whatever the budget may have granted, neither this ask nor one before it sends.
 */
export type SendFollowUpResult =
  | SendOutcomeResult
  | (Exclude<AcquireAnswer, { kind: 'granted' } | { kind: 'done' }> & {
      proven: boolean;
      grantedBefore?: GrantedBefore;
      provenNotSent?: true;
      ledgerSinceMs?: number;
    });

/** How a watch has ended: by what it saw, or before that, after as many looks as are known. */
export type WatchEnd = ({ kind: 'seen' } & WatchResult) | { kind: 'stopped'; looks: number };

/** How a follow-up, or this run of it, ends. */
export type Ending =
  | { kind: 'result'; result: FollowUpResult }
  | { kind: 'failure'; type: FailureType; message: string; details: FailureDetails }
  /** Another run goes on from the state. */
  | { kind: 'continueAsNew' };

/** Search attributes. `null`: not there. */
export interface ShownAttributes {
  projectId: string;
  jobId: string;
  state: string;
  jobStatus: string | null;
  prLink: string | null;
}

/** What the flow needs of the world it runs in. */
export interface FollowUpPort {
  readonly workflowId: string;
  /**
   * Whether this run takes the place of another, by a reset or by a retry policy. What it was told before proves nothing
   * any more: the run that it replaces may have gone on from there and sent the message.
   */
  readonly replacesRun: boolean;
  /** In epoch milliseconds. */
  nowMs(): number;
  /** From 0 to 1. */
  random(): number;
  /** Whether the run has become so long that another should go on. */
  continueAsNewIsDue(): boolean;
  /**
   * Waits, or until `until` holds. Changes within the flow itself, such as a cancel, are checked whenever they happen.
   */
  sleep(ms: number, summary: string, until: () => boolean): Steps<void>;
  /** Reads the job. A read that could not be made is one that failed. */
  getJob(summary: string, beforeSend: boolean): Steps<GetJobResult>;
  /** Begins to look at the job again and again, until something is new or the time has come. One watch at a time. */
  startWatch(order: WatchOrder): void;
  /** Waits for the end of the watch, or until `until` holds. */
  awaitWatch(until: () => boolean): Steps<WatchEnd | undefined>;
  /** Ends the watch. A look under way is awaited. */
  stopWatch(): Steps<WatchEnd>;
  /** Asks, and sends where it is granted. Repeated until there is an answer, and never broken off. */
  send(input: SendFollowUpInput, options: { startToCloseMs: number; summary: string }): Steps<SendFollowUpResult>;
  /** Tells the budget; whether there was one to hear it. */
  tell(word: BudgetWord): Steps<boolean>;
  /** Shows where the follow-up stands. `changed`: the search attributes that are not as they were. */
  show(progress: FollowUpProgress, changed: Partial<ShownAttributes>): void;
}
