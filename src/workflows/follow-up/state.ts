import type { AgentJob, FollowUpResult, GrantedBefore, JobFingerprint, WaitReason } from '../../contract/index.js';

/** Everything that a follow-up carries through continue-as-new. Plain JSON. */
export interface FollowUpState {
  phase: 'asking' | 'reconciling' | 'polling';
  firstRunStartedAtMs: number;
  sendNumber: number;
  /** Get-job calls before the send, or polls after it, that failed in a row. */
  failures: number;
  /** Sends in a row that never left: each waits longer than the one before. */
  notSentInARow?: number;
  /** Asks in a row that were overtaken. Many of them mean that the server's clock was set back. */
  staleAsks: number;
  /** An earlier send of this follow-up ended unknown and was repeated. */
  earlierSendUnknown: boolean;
  /**
   * Whether it is certain that nothing was granted to the current send number: this is the first run and it has not
   * asked, or the gate's own answer to the latest ask was a place in the queue, which fences off all earlier asks.
   */
  provenNotSent: boolean;
  /** Whether an earlier attempt for the current send number was granted, though how it ended was not heard. */
  grantedBefore?: GrantedBefore;
  /** A run before this one took the place of another, which may have gone on and sent. */
  replacesRun?: true;
  /** The gate's `ledgerSinceMs`, as it said it last. */
  ledgerSinceMs?: number;
  /** Tag of the message that was let through, where the gate had recorded it: the baseline may be from after the send. */
  recordedTag?: string;
  /** Whether the gate may know this follow-up, so that it has to be told its end. */
  knownToGate: boolean;
  /** When it last asked to keep its place while the job is at work. */
  heldAtMs?: number;
  sendStartToCloseMs: number;
  baseline?: AgentJob;
  lastTurn?: JobFingerprint;
  wait?: { reason: WaitReason | 'service'; position: number; expectedSendAtMs?: number };
  grantedAtMs?: number;
  /** Reconciling: bytes may arrive, and the settle time runs, until then. */
  reconcileUntilMs?: number;
  /** Reconciling: the gate has not said for certain that the outcome is unknown; ask again before concluding. */
  askAgainFirst?: boolean;
  operatorWord?: 'sent' | 'notSent';
  delivery?: FollowUpResult['delivery'];
  sentAtMs?: number;
  observedActive: boolean;
  /** The poll before showed a terminal status that was believed. */
  terminalSeen: boolean;
  notFoundInARow: number;
  polls: number;
  intervalMs: number;
  nextPollAtMs?: number;
  /** The latest read was refused for its key, and the budget was told so at that time. */
  keyRefusedAtMs?: number;
  /** From a Retry-After: no poll before then, unless somebody asks for one. */
  pollNotBeforeMs?: number;
  job?: AgentJob;
  jobSeenAtMs?: number;
  lastError?: { atMs: number; message: string };
  pollNow: boolean;
  /** Search attributes as last written: each change costs an event. */
  shown: { state?: string; jobStatus?: string; prLink?: string };
}

/** State of a follow-up's first run. */
export function newFollowUpState(options: {
  startedAtMs: number;
  isFirstRun: boolean;
  intervalMs: number;
}): FollowUpState {
  return {
    phase: 'asking',
    firstRunStartedAtMs: options.startedAtMs,
    sendNumber: 1,
    failures: 0,
    staleAsks: 0,
    earlierSendUnknown: false,
    provenNotSent: options.isFirstRun,
    knownToGate: !options.isFirstRun,
    // Until the worker has said its own: lease of the default send timeout (60 s) and 15 s.
    sendStartToCloseMs: 75_000,
    observedActive: false,
    terminalSeen: false,
    notFoundInARow: 0,
    polls: 0,
    intervalMs: options.intervalMs,
    pollNow: false,
    shown: {},
  };
}
