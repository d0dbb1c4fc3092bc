import type { AgentJob, EndedStanding, FollowUpProgress, FollowUpResult, FollowUpSettings } from '../contract/index.js';
import type { GrantedBefore, JobFingerprint, ToldPause } from '../contract/protocol.js';
import type { ShownAttributes, Trouble } from './port.js';

/** Before the send, and the send itself. */
export interface Asking {
  kind: 'asking';
  /** The job as the latest read showed it; empty before the first read. */
  baseline: AgentJob;
  /** When it last asked to keep its place while the job is at work; 0: never. */
  heldAtMs: number;
  failures: number;
  notFoundInARow: number;
  /** Sends in a row that never left. Each waits longer than the previous one. */
  notSentInARow: number;
  intervalMs: number;
}

/** The message was granted a send, and nobody knows yet whether it was delivered. */
export interface Reconciling {
  kind: 'reconciling';
  baseline: AgentJob;
  grantedAtMs: number;
  /** Until then bytes may arrive and the settle time runs. */
  untilMs: number;
  /** Whether to ask the budget again before concluding, because it has not confirmed that the outcome is unknown. */
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
  /** Whether the previous look showed a terminal status that was believed. */
  terminalSeen: boolean;
  hasLooked: boolean;
  /** As people are shown it. */
  trouble: Trouble | null;
  /** Failed reads in a row. */
  failures: number;
  notFoundInARow: number;
  intervalMs: number;
  /** From a Retry-After: no look before then, unless somebody requests one. */
  notBeforeMs: number;
}

/** The phase of a follow-up, with what it has to know in it. */
export type Phase = Asking | Reconciling | Watching;

/** What people are shown besides the job. */
export type View =
  | { state: 'sending' }
  | EndedStanding
  | { state: 'polling' | 'reconciling'; nextLookAtMs: number | null }
  | {
      state: 'waiting-for-budget' | 'waiting-for-job' | 'blocked';
      waitReason: NonNullable<FollowUpProgress['waitReason']>;
      /** 0 if it has no position. */
      position: number;
      expectedSendAtMs: number | null;
      /** When it tries again by itself. */
      nextTryAtMs?: number;
      pause?: ToldPause;
    };

/** Everything that a follow-up carries through continue-as-new, as plain JSON. */
export interface FollowUpState {
  phase: Phase;
  view: View;
  viewedAtMs: number;
  firstRunStartedAtMs: number;
  sendNumber: number;
  /** Overtaken asks in a row. Many mean that the server's clock was set back. */
  staleAsks: number;
  /** The outcome of an earlier send is unknown, and the message was sent again. */
  earlierSendUnknown: boolean;
  askCount: number;
  /**
   * Whether it is certain that no ask so far has sent the current send number. That is so if there was no ask, if the
   * budget itself answered the latest with a place in the queue (which fences off all earlier asks), or if each ask
   * ended at its first attempt without a grant.
   */
  provenNotSent: boolean;
  /** Whether an earlier attempt for the current send number was granted without its end being heard. */
  grantedBefore?: GrantedBefore;
  /** An earlier run replaced another one, which may have continued and sent. */
  replacesRun: boolean;
  /** The budget's `ledgerSinceMs`, as it last said. */
  ledgerSinceMs?: number;
  /**
   * Tag of the message that was let through, if the budget had recorded it: then the baseline may be from after the
   * send.
   */
  recordedTag?: string;
  /** Whether the budget may know this follow-up and must be told its end. */
  knownToBudget: boolean;
  sendStartToCloseMs: number;
  /** See `linksArePrivate` of `GetJobResult`. */
  linksArePrivate?: true;
  /** How the previous turn ended, as the budget remembers it. */
  lastTurn?: JobFingerprint;
  /** Reads since the send. */
  polls: number;
  /** When the budget was told that reads are refused for their key; missing if they are not. */
  keyRefusedAtMs?: number;
  /** `isSinceSend`: from a read after the message was granted a send, or from the answer to the message. */
  seen?: { job: AgentJob; atMs: number; isSinceSend: boolean };
  lastError?: { atMs: number; message: string };
  pollNow: boolean;
  /** As last written. Each change costs an event. */
  attributes: Partial<ShownAttributes>;
}

/** A job that was never read. Nothing that it shows later proves anything. */
const NEVER_READ: AgentJob = {};

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
    // Used until the worker reports its own: the lease of the default send timeout (60 s) and 15 s.
    sendStartToCloseMs: 75_000,
    polls: 0,
    pollNow: false,
    attributes: {},
  };
}

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

/** The phase after a send whose delivery is known or assumed. */
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
    failures: 0,
    notFoundInARow: 0,
    notBeforeMs: 0,
    ...how,
  };
}
