import type { AgentJob } from './agent-job.js';
import type { WaitReason } from './budget-messages.js';
import type { ResolveWord } from './choices.js';
import { defineQuery, defineSignal, defineUpdate } from './definitions.js';
import type { EndedStanding, FollowUpResult } from './follow-up-result.js';

/** Answer of the `progress` query. */
export type FollowUpProgress = FollowUpFacts & FollowUpStanding;

/** Where a follow-up stands, with what belongs to each state. */
export type FollowUpStanding =
  | { state: 'sending' | 'reconciling' | 'polling'; waitReason?: never; failure?: never }
  | {
      state: 'waiting-for-budget' | 'waiting-for-job' | 'blocked';
      /** Why it waits. */
      waitReason: WaitReason | 'service';
      failure?: never;
    }
  | (EndedStanding & { waitReason?: never });

/** A pause of a project's budget, for people. */
export interface ShownPause {
  /** `service`: it answered 429. */
  by: 'operator' | 'service';
  /** Missing where it lasts until it is resumed. ISO 8601 in UTC. */
  until?: string;
  /** The operator's. */
  note?: string;
}

/** What a follow-up knows in any state. Instants are ISO 8601 in UTC. */
export interface FollowUpFacts {
  projectId: string;
  jobId: string;
  /**
   * When the follow-up learned what is said here of its place and its next look: its latest ask, look or change of
   * state.
   */
  learnedAt: string;
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
  /** While it is blocked, or its job is busy: when it tries again by itself, at the latest. */
  nextTryAt?: string;
  /** While its project is paused: by whom, until when, and why, as its budget said it. */
  pause?: ShownPause;
  /**
   * When it stops waiting, at the latest: before the send the end of `budgetWaitTimeout`, after it that of `jobTimeout`.
   * While it is not known whether the message was delivered: when that is decided.
   */
  waitsUntil?: string;
  /** How it is known that the message was delivered. */
  delivery?: FollowUpResult['delivery'];
  /** An earlier send of the message may have been delivered, and it is being sent again. */
  earlierSendUnknown?: true;
  /** Last job seen, and when. It may show the turn before this message's, before the send and some time after it. */
  job?: AgentJob;
  jobSeenAt?: string;
  /** What the job has shown of this message's turn; missing before that. */
  jobStatus?: string;
  prLink?: string;
  /** Last thing that went wrong; it need not be serious, the workflow goes on. */
  lastError?: { at: string; message: string };
}

/** What a follow-up knows and waits for, at this moment. Needs a running worker. */
export const progressQuery = defineQuery<FollowUpProgress>('progress');

/** Look at the job now instead of at the next poll. Harmless at any time. */
export const pollNowSignal = defineSignal('pollNow');

/** An operator's word on a delivery that cannot be told otherwise; accepted only while the follow-up is reconciling. */
export const resolveDeliveryUpdate = defineUpdate<void, [word: ResolveWord]>('resolveDelivery');

/** From the budget: ask again now. May be lost, late or doubled without harm. */
export const wakeSignal = defineSignal('wake');

/** From the budget: does the owner of a job's turn still run? Only its failure says anything. */
export const stillThereSignal = defineSignal('stillThere');

/** Details of the latest failure of a watch, for people and for programs that count its polls. */
export interface NothingNewDetails {
  looks: number;
  /** When the job was looked at; `null` where it was not time yet. In epoch milliseconds. */
  lookedAtMs: number | null;
  /** What was wrong with the read; `null` where nothing was. */
  trouble: string | null;
}
