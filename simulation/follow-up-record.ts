import type { Delivered, FailureType, Lane } from '../src/contract/index.js';

/** What the caller was told at the end. */
export interface Ending {
  result: 'completed' | FailureType;
  delivered: Delivered;
}

/** A follow-up over all its runs, as the simulated world sees it. */
export interface FollowUpRecord {
  workflowId: string;
  jobId: string;
  lane: Lane;
  /** In simulated time. */
  startsAtMs: number;
  /** What happens if nothing shows whether the message was delivered. */
  onUnknownDelivery: 'fail' | 'assumeSent' | 'resend';
  budgetWaitTimeoutMs: number;
  /** Until when the job is at work for somebody else, in simulated time. */
  jobAtWorkUntilMs: number;
  /** How long the agent works on the message. */
  turnMs: { min: number; max: number };
  /** Whether the job shows that a message was delivered if the sender could not see it. */
  showsDelivery: boolean;
  /** How long after the delivery reads still show the job as it was before. */
  staleForMs: number;
  /** Whether a POST was ever started for it. */
  beganPost: boolean;
  /** Whether it has asked for a slot, so that the budget may know it. */
  hasAsked: boolean;
  /** Whether its latest run has told the budget its end. */
  hasToldEnd: boolean;
  /** For the statistics: when the first answer expected the slot, in simulated time. */
  expectedGrantAtMs?: number;
  /** Missing while it runs. */
  ending?: Ending | 'terminated';
  /** In simulated time. */
  endedAtMs?: number;
}
