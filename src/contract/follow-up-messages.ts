import type { AgentJob } from './agent-job.js';
import type { WaitReason } from './budget-messages.js';
import type { FollowUpState, ResolveWord } from './choices.js';
import { defineQuery, defineSignal, defineUpdate } from './definitions.js';

/** Answer of the `progress` query. Instants are ISO 8601 in UTC. */
export interface FollowUpProgress {
  projectId: string;
  jobId: string;
  state: FollowUpState;
  /** Why it waits, while it waits for budget, for the job, or is blocked. */
  waitReason?: WaitReason | 'service';
  /** Place in the project's queue, 1 for the next; only while it waits for a slot. */
  position?: number;
  /** When the send is expected, where that can be told. */
  expectedSendAt?: string;
  sentAt?: string;
  /**
   * Reads of the job since the send, failed ones included. The workflow itself hears of the reads of a watch when the
   * watch ends; those of one under way are in the pending activity `watchJob`, and the library adds them. A watch that is
   * broken off, by a cancel or by `pollNow`, may take its reads with it.
   */
  polls: number;
  nextPollAt?: string;
  /** Last job seen, and when. */
  job?: AgentJob;
  jobSeenAt?: string;
  prLink?: string | null;
  /** Last thing that went wrong; it need not be serious, the workflow goes on. */
  lastError?: { at: string; message: string };
}

/** What a follow-up knows and waits for, at this moment. Needs a running worker. */
export const progressQuery = defineQuery<FollowUpProgress>('progress');

/** Look at the job now instead of at the next poll. Harmless at any time. */
export const pollNowSignal = defineSignal('pollNow');

/** An operator's word on a delivery that cannot be told otherwise; accepted only while the follow-up is reconciling. */
export const resolveDeliveryUpdate = defineUpdate<void, [word: ResolveWord]>('resolveDelivery');

/** From the gate: ask again now. May be lost, late or doubled without harm. */
export const wakeSignal = defineSignal('wake');

/** From the gate: does the owner of a job's turn still run? Only its failure says anything. */
export const stillThereSignal = defineSignal('stillThere');
