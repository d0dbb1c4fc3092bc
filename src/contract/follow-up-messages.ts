import type { BlockReason, WaitReason } from './budget-messages.js';
import type { ResolveWord } from './choices.js';
import type { AgentJob, EndedStanding, FollowUpResult } from './follow-up-result.js';
import { defineQuery, defineSignal, defineUpdate } from './names.js';

/** Answer of the `progress` query. */
export type FollowUpProgress = FollowUpFacts & FollowUpStanding;

/** The state of a follow-up, with the fields that belong to it. */
export type FollowUpStanding =
  | {
      state: 'sending' | 'reconciling' | 'polling';
      /** Why the job cannot be read for a while. */
      waitReason?: WaitReason | BlockReason;
      failure?: never;
    }
  | {
      state: 'waiting-for-budget' | 'waiting-for-job' | 'blocked';
      /** Why it waits. */
      waitReason: WaitReason | BlockReason;
      failure?: never;
    }
  | (EndedStanding & { waitReason?: never });

/** A pause of a project's budget, for people. */
export interface ShownPause {
  /** `service`: it refuses messages (429, 401, 403 or 402). */
  by: 'operator' | 'service';
  /** Missing if it lasts until it is resumed. ISO 8601 in UTC. */
  until?: string;
  /** The operator's. */
  note?: string;
}

/** What a follow-up knows in any state. All times are ISO 8601 in UTC. */
export interface FollowUpFacts {
  projectId: string;
  jobId: string;
  /** When the follow-up learned its position and its next look: at its latest ask, look or change of state. */
  learnedAt: string;
  /** Position in the project's queue, 1 for the next. Only while it waits for a slot. */
  position?: number;
  /** When the send is expected, if that is known. */
  expectedSendAt?: string;
  sentAt?: string;
  /**
   * Reads of the job since the send, including failed ones. The workflow counts the reads of a watch only when the
   * watch ends. Those of a running watch are in the heartbeat of the pending activity `watchJob`, and the library adds
   * them. A watch that a cancel or `pollNow` cuts short may lose its reads.
   */
  polls: number;
  /** When the job is read next. Only the library knows it, from the heartbeat of the pending activity `watchJob`. */
  nextPollAt?: string;
  /**
   * When it asks again. The workflow knows it while it has no place in line, or after a send that was not made. While an
   * ask is repeated, only the library knows it, from the pending activity `askForSlot`.
   */
  nextTryAt?: string;
  /** While its project is paused: by whom, until when, and why, as its budget said. */
  pause?: ShownPause;
  /**
   * When it stops waiting, at the latest. Before the send this is the end of `budgetWaitTimeout`, after the send the
   * end of `jobTimeout`. While delivery is unknown, it is the time at which that is decided.
   */
  waitsUntil?: string;
  /** How delivery is known. */
  delivery?: FollowUpResult['delivery'];
  /** An earlier send of the message may have been delivered, and the message is being sent again. */
  earlierSendUnknown?: true;
  /**
   * The last job seen, and when. Before the send, and for some time after it, the job may still show the previous turn.
   */
  job?: AgentJob;
  jobSeenAt?: string;
  /** What the job has shown of this message's turn; missing until it shows something. */
  jobStatus?: string;
  prLink?: string;
  /** The last thing that went wrong. It need not be serious: the workflow continues. */
  lastError?: { at: string; message: string };
}

/** What a follow-up knows and waits for now. Needs a running worker. */
export const progressQuery = defineQuery<FollowUpProgress>('progress');

/**
 * Reads the job now instead of at the next poll. Harmless at any time: while a follow-up waits for the agent, the sixth in
 * a row is ignored until a watch had the time that it needs to see an end.
 */
export const pollNowSignal = defineSignal('pollNow');

/** An operator's decision about an unknown delivery. Accepted only while the follow-up is reconciling. */
export const resolveDeliveryUpdate = defineUpdate<void, [word: ResolveWord]>('resolveDelivery');
