import { z } from 'zod';
import { defineQuery, defineSignal, defineUpdate, object } from '../common/index.js';
import { blockReasons, waitReasons } from './budget-status.js';
import {
  deliveredValues,
  type DeliveryDecision,
  type EndState,
  endStates,
  sendingStates,
  waitingStates,
} from './choices.js';
import { agentJobSchema, FailureType, followUpResultSchema, type TerminalStatus } from './follow-up-result.js';

const instant = z.iso.datetime();

const factsSchema = object({
  projectId: z.string(),
  jobId: z.string(),
  /** Time of the position and the next poll: the latest ask, poll or change of state. */
  learnedAt: instant,
  /** Position in the project's queue, 1 is next. Only while it waits for a slot. */
  position: z.int().min(1).exactOptional(),
  /** Expected time of the send, if known. */
  expectedSendAt: instant.exactOptional(),
  sentAt: instant.exactOptional(),
  /**
   * Reads of the job since the send, including failed ones. The workflow counts those of a watch at its end; the
   * library adds those of a running watch. Reads of a watch that a cancel or `pollNow` cuts short may be lost.
   */
  polls: z.int().min(0),
  /** Time of the next read. Only the library knows it, from the heartbeat of the pending activity `watchJob`. */
  nextPollAt: instant.exactOptional(),
  /**
   * Time of the next ask, unless a signal of the budget comes first. While the server repeats an ask, only the library
   * knows it, from the pending activity `askForSlot`.
   */
  nextTryAt: instant.exactOptional(),
  /** Set while its project is paused, or its message has to wait, by its budget's latest reply. */
  pause: object({
    /**
     * `service`: the service takes no messages of the project. `message`: the service refuses this message, but
     * accepts others.
     */
    by: z.enum(['operator', 'service', 'message']),
    /** Missing if it lasts until resumed. */
    until: instant.exactOptional(),
    /** HTTP status of the latest refusal. */
    statusCode: z.int().exactOptional(),
    /** The operator's note. */
    note: z.string().exactOptional(),
  }).exactOptional(),
  /**
   * Latest end of the wait: of `budgetWaitTimeout` before the send, of `jobTimeout` after it. While the delivery is
   * unknown, the time of the decision.
   */
  waitsUntil: instant.exactOptional(),
  /** How the delivery is known. */
  delivery: followUpResultSchema.shape.delivery.exactOptional(),
  /** Whether an earlier send may have been delivered while the message is sent again. */
  earlierSendUnknown: z.literal(true).exactOptional(),
  /** The job as last read. Before the send and shortly after it, it may still show the previous turn. */
  job: agentJobSchema.exactOptional(),
  jobSeenAt: instant.exactOptional(),
  /** The job's status in this message's turn; missing until it shows one. */
  jobStatus: z.string().exactOptional(),
  prLink: z.string().exactOptional(),
  /** The last error. The follow-up continues. */
  lastError: object({ at: instant, message: z.string() }).exactOptional(),
});
/** The fields of a follow-up's progress in any state. All times are ISO 8601 in UTC. */
export type FollowUpFacts = z.infer<typeof factsSchema>;

/** A pause of a project, or of one message. */
export type ShownPause = NonNullable<FollowUpFacts['pause']>;

const endFailureSchema = object({
  type: z.enum(FailureType),
  message: z.string(),
  delivered: z.enum(deliveredValues),
});
/** Why a follow-up has ended without a result. */
export type EndFailure = z.infer<typeof endFailureSchema>;

const waitReason = z.enum([...waitReasons, ...blockReasons]);
const standingSchema = z.union([
  /** With `waitReason` while its job cannot be read. */
  object({ state: z.enum(sendingStates), waitReason: waitReason.exactOptional() }),
  object({ state: z.enum(waitingStates), waitReason }),
  object({ state: z.enum(['completed', 'archived']) }),
  /** The agent job failed, which is a result, or (with `failure`) the delivered message's turn cannot be seen to its end. */
  object({ state: z.literal('job-failed'), failure: endFailureSchema.nullable() }),
  /**
   * `not-sent`: nothing was delivered. `delivery-unknown`: the delivery is unknown, whatever else ended the follow-up.
   * `timed-out`: the message was delivered, and the agent job did not end in time.
   */
  object({ state: z.enum(endStates).exclude(['completed', 'archived', 'job-failed']), failure: endFailureSchema }),
]);

/** Adds to each member of a union the other members' fields as fields that are never set. */
type EachWithout<
  Union,
  Fields extends PropertyKey = Union extends unknown ? keyof Union : never,
> = Union extends unknown ? Union & Partial<Record<Exclude<Fields, keyof Union>, never>> : never;

/** The state of a follow-up, with `waitReason` while it waits, or `failure` if it ended without a result. */
export type FollowUpStanding = EachWithout<z.infer<typeof standingSchema>>;

/** The end state of a follow-up. */
export type EndedStanding = Extract<FollowUpStanding, { state: EndState }>;

/** Result of the `progress` query. */
export type FollowUpProgress = FollowUpFacts & FollowUpStanding;
export const followUpProgressSchema: z.ZodType<FollowUpProgress> = z.intersection(standingSchema, factsSchema);

/** Whether a follow-up in this state has ended. */
export function isEndState(state: string): state is EndState {
  return endStates.some((known) => known === state);
}

/** The end state of a follow-up, from its result or failure alone. */
export function endOf(ending: { status: TerminalStatus } | EndFailure): EndedStanding {
  if ('status' in ending) {
    return ending.status === 'failed' ? { state: 'job-failed', failure: null } : { state: ending.status };
  }
  const { type, message, delivered } = ending;
  return { state: failedStateOf(ending), failure: { type, message, delivered } };
}

/** An unknown delivery matters more than anything else about the end. */
function failedStateOf({ type, delivered }: EndFailure): Exclude<EndState, 'completed' | 'archived'> {
  if (delivered === 'unknown') return 'delivery-unknown';
  if (type === FailureType.Cancelled) return 'cancelled';
  if (delivered === 'no') return 'not-sent';
  return type === FailureType.JobTimeout ? 'timed-out' : 'job-failed';
}

/** The progress of a follow-up. Needs a running worker. */
export const progressQuery = defineQuery<FollowUpProgress>('progress');

/**
 * Reads the job now instead of at the next poll. Harmless at any time: while a follow-up waits for the agent, it
 * ignores further signals after five in a row, until a watch had enough time to see an end.
 */
export const pollNowSignal = defineSignal('pollNow');

/** An operator's decision about an unknown delivery. Accepted only while the follow-up is reconciling. */
export const resolveDeliveryUpdate = defineUpdate<void, [decision: DeliveryDecision]>('resolveDelivery');
