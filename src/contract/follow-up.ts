import { z } from 'zod';
import { blockReasons, waitReasons } from './budget.js';
import {
  deliveredValues,
  type EndState,
  endStates,
  type ResolveWord,
  sendingStates,
  waitingStates,
} from './choices.js';
import { defineQuery, defineSignal, defineUpdate } from './names.js';
import { inputIssueSchema, object } from './validation.js';

/**
 * A job as the service shows it. Every field may be missing: the sample answer of the message endpoint has no `status`.
 * Fields and statuses that the service adds later are accepted; such a status is not terminal.
 */
export const agentJobSchema = z.looseObject({
  id: z.string().optional(),
  status: z.string().optional(),
  source: z.looseObject({ repository: z.string().optional(), ref: z.string().nullish() }).optional(),
  model: z.string().optional(),
  prLink: z.string().nullish(),
  createdAt: z.string().optional(),
  archivedAt: z.string().nullish(),
});
export type AgentJob = z.infer<typeof agentJobSchema>;

/** The statuses that end a job's turn. */
export const terminalStatuses = ['completed', 'archived', 'failed'] as const;
export type TerminalStatus = (typeof terminalStatuses)[number];

/** Whether a status ends a turn. A missing or unknown status does not. */
export function isTerminalStatus(status: string | undefined): status is TerminalStatus {
  return terminalStatuses.some((known) => known === status);
}

/** Result of the `followUp` workflow, for every terminal status: a failed agent job is also a result. */
export const followUpResultSchema = object({
  projectId: z.string(),
  jobId: z.string(),
  status: z.enum(terminalStatuses),
  /** URL of the pull request; `null` if the agent made none. */
  prLink: z.string().nullable(),
  /** Whether `prLink` differs from the one before the message was sent. `false` if that one is unknown. */
  prLinkChanged: z.boolean(),
  /** `sent`: the service confirmed it. `inferred`: the job shows it. `assumed`: `onUnknownDelivery` or an operator said so. */
  delivery: z.enum(['sent', 'inferred', 'assumed']),
  /** Whether the job was seen at work on this message. `false`: something changed, or `settleTime` passed. */
  observedActive: z.boolean(),
  /** When the send was settled; if `delivery` is `inferred` or `assumed`, when it was granted. ISO 8601, UTC. */
  sentAt: z.string(),
  finishedAt: z.string(),
  /** Reads of the job since the send, including failed ones, but not those of a watch that `pollNow` cut short. */
  polls: z.int(),
  /** The last job seen, including fields that this project does not know. */
  job: agentJobSchema,
});
export type FollowUpResult = z.infer<typeof followUpResultSchema>;

/** Every `ApplicationFailure.type` a workflow of this project fails with. */
export const FailureType = {
  /** The input breaks a rule; the message names every bad field. Nothing was sent. */
  InvalidInput: 'InvalidInput',
  /** The service does not know the job. */
  JobNotFound: 'JobNotFound',
  /** The job was archived before the message was sent. Nothing was sent. */
  JobArchived: 'JobArchived',
  /** The service refused the message; the failure quotes it. Nothing was delivered. */
  MessageRejected: 'MessageRejected',
  /** It cannot be found out whether the message was delivered. It is not sent again. */
  DeliveryUnknown: 'DeliveryUnknown',
  /** `budgetWaitTimeout` passed before the message could be sent. */
  BudgetWaitTimeout: 'BudgetWaitTimeout',
  /** `jobTimeout` passed after the message was sent; the details hold the last job seen. */
  JobTimeout: 'JobTimeout',
  /** Cancelled, unless it is proven that nothing was delivered (then the workflow ends as Canceled). */
  Cancelled: 'Cancelled',
  /** The budget already saw this follow-up end. */
  Closed: 'Closed',
} as const;
export type FailureType = (typeof FailureType)[keyof typeof FailureType];

/** The first of an `ApplicationFailure`'s details, for every {@link FailureType}. */
export const failureDetailsSchema = object({
  /** Whether the message reached the service. */
  delivered: z.enum(deliveredValues),
  projectId: z.string().exactOptional(),
  jobId: z.string().exactOptional(),
  /** `InvalidInput`: every rule that was broken. */
  issues: z.array(inputIssueSchema).exactOptional(),
  /** `MessageRejected`, `JobNotFound`: HTTP status of the service's answer. */
  statusCode: z.int().exactOptional(),
  /** `MessageRejected`, `JobNotFound`: the service's text, at most 500 characters, secrets masked. */
  serviceMessage: z.string().exactOptional(),
  /** The last job seen, with all its fields. */
  job: agentJobSchema.exactOptional(),
});
export type FailureDetails = z.infer<typeof failureDetailsSchema>;

const instant = z.iso.datetime();

const factsSchema = object({
  projectId: z.string(),
  jobId: z.string(),
  /** When the follow-up learned its position and its next poll: at its latest ask, poll or change of state. */
  learnedAt: instant,
  /** Position in the project's queue, 1 for the next. Only while it waits for a slot. */
  position: z.int().min(1).exactOptional(),
  /** When the send is expected, if that is known. */
  expectedSendAt: instant.exactOptional(),
  sentAt: instant.exactOptional(),
  /**
   * Reads of the job since the send, including failed ones. The workflow counts those of a watch when it ends; the library
   * adds those of a running one. A watch that a cancel or `pollNow` cuts short may lose its reads.
   */
  polls: z.int().min(0),
  /** When the job is read next. Only the library knows it, from the heartbeat of the pending activity `watchJob`. */
  nextPollAt: instant.exactOptional(),
  /**
   * When it asks again: while it has no place in line, or after a send that was not made. While an ask is repeated, only
   * the library knows it, from the pending activity `askForSlot`.
   */
  nextTryAt: instant.exactOptional(),
  /** While its project is paused, as its budget said. */
  pause: object({
    /** `service`: it refuses messages (429, 401, 403 or 402). */
    by: z.enum(['operator', 'service']),
    /** Missing if it lasts until it is resumed. */
    until: instant.exactOptional(),
    /** The operator's. */
    note: z.string().exactOptional(),
  }).exactOptional(),
  /**
   * When it stops waiting, at the latest: the end of `budgetWaitTimeout` before the send, of `jobTimeout` after it. While
   * delivery is unknown, when that is decided.
   */
  waitsUntil: instant.exactOptional(),
  /** How delivery is known. */
  delivery: followUpResultSchema.shape.delivery.exactOptional(),
  /** An earlier send of the message may have been delivered, and the message is being sent again. */
  earlierSendUnknown: z.literal(true).exactOptional(),
  /** The last job seen. Before the send, and for some time after it, it may still show the previous turn. */
  job: agentJobSchema.exactOptional(),
  jobSeenAt: instant.exactOptional(),
  /** What the job has shown of this message's turn; missing until it shows something. */
  jobStatus: z.string().exactOptional(),
  prLink: z.string().exactOptional(),
  /** The last thing that went wrong. It need not be serious: the workflow continues. */
  lastError: object({ at: instant, message: z.string() }).exactOptional(),
});
/** What a follow-up knows in any state. All times are ISO 8601 in UTC. */
export type FollowUpFacts = z.infer<typeof factsSchema>;

/** A pause of a project's budget, for people. */
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
  /** The agent job failed, which is a result, or (with `failure`) it disappeared after the message was delivered. */
  object({ state: z.literal('job-failed'), failure: endFailureSchema.nullable() }),
  /**
   * `not-sent`: nothing was delivered. `delivery-unknown`: it cannot be found out whether the message was delivered,
   * whatever else ended the follow-up. `timed-out`: it was delivered, and the agent job did not end in time.
   */
  object({ state: z.enum(endStates).exclude(['completed', 'archived', 'job-failed']), failure: endFailureSchema }),
]);

/** The members of a union, each with the fields that only other members have as fields that are never set. */
type EachWithout<
  Union,
  Fields extends PropertyKey = Union extends unknown ? keyof Union : never,
> = Union extends unknown ? Union & Partial<Record<Exclude<Fields, keyof Union>, never>> : never;

/** The state of a follow-up: with why it waits (`waitReason`), or why it ended without a result (`failure`). */
export type FollowUpStanding = EachWithout<z.infer<typeof standingSchema>>;

/** How a follow-up has ended. */
export type EndedStanding = Extract<FollowUpStanding, { state: EndState }>;

/** Answer of the `progress` query. */
export type FollowUpProgress = FollowUpFacts & FollowUpStanding;
export const followUpProgressSchema: z.ZodType<FollowUpProgress> = z.intersection(standingSchema, factsSchema);

/** Whether a follow-up in this state has ended. */
export function isEndState(state: string): state is EndState {
  return endStates.some((known) => known === state);
}

/** The state in which a follow-up ends, from its result or its failure. Nothing else decides it. */
export function endOf(ending: { status: TerminalStatus } | EndFailure): EndedStanding {
  if ('status' in ending) {
    return ending.status === 'failed' ? { state: 'job-failed', failure: null } : { state: ending.status };
  }
  const { type, message, delivered } = ending;
  return { state: failedStateOf(ending), failure: { type, message, delivered } };
}

/** An unknown delivery comes first: nothing else about the end matters as much. */
function failedStateOf({ type, delivered }: EndFailure): Exclude<EndState, 'completed' | 'archived'> {
  if (delivered === 'unknown') return 'delivery-unknown';
  if (type === FailureType.Cancelled) return 'cancelled';
  if (delivered === 'no') return 'not-sent';
  return type === FailureType.JobTimeout ? 'timed-out' : 'job-failed';
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
