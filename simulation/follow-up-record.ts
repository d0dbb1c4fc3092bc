import type { Delivered, FailureType, Lane } from '../src/contract/index.js';

/** What a caller was told at the end. */
export interface Ending {
  result: 'completed' | FailureType;
  delivered: Delivered;
}

/** A follow-up as the world knows it, over all its runs. */
export interface FollowUpRecord {
  workflowId: string;
  jobId: string;
  lane: Lane;
  /** In simulated time. */
  startsAtMs: number;
  /** What happens where nothing shows whether the message was delivered. */
  onUnknownDelivery: 'fail' | 'assumeSent' | 'resend';
  budgetWaitTimeoutMs: number;
  /** The job is at work for somebody else until then, in simulated time. */
  jobAtWorkUntilMs: number;
  /** How long the agent works on the message. */
  turnMs: { min: number; max: number };
  /** Whether the job shows that a message was delivered, where the sender could not see it. */
  showsDelivery: boolean;
  /** How long reads after the delivery show the job as it was before. */
  staleForMs: number;
  /** Whether a POST was ever begun for it. */
  beganPost: boolean;
  /** Whether it has asked for a slot, so that the budget may know it. */
  hasAsked: boolean;
  /** Whether its latest run has told the budget its end. */
  hasToldEnd: boolean;
  /** For the figures: when the first answer expected the slot, in simulated time. */
  expectedGrantAtMs?: number;
  /** Missing while it runs. */
  ending?: Ending | 'terminated';
  /** In simulated time. */
  endedAtMs?: number;
}
