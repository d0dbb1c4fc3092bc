import { z } from 'zod';
import { object } from '../common/index.js';
import { deliveredValues } from './choices.js';
import { inputIssueSchema } from './validation.js';

/**
 * A job as the service returns it. Every field may be missing: the message endpoint's sample response has no `status`.
 * Unknown fields and statuses are accepted; an unknown status is not terminal.
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

/** Statuses that end a job's turn. */
export const terminalStatuses = ['completed', 'archived', 'failed'] as const;
export type TerminalStatus = (typeof terminalStatuses)[number];

/** Whether a status ends a turn. A missing or unknown status does not. */
export function isTerminalStatus(status: string | undefined): status is TerminalStatus {
  return terminalStatuses.some((known) => known === status);
}

/** Result of the `followUp` workflow for every terminal status, including `failed`. */
export const followUpResultSchema = object({
  projectId: z.string(),
  jobId: z.string(),
  status: z.enum(terminalStatuses),
  /** URL of the pull request; `null` if the agent made none. */
  prLink: z.string().nullable(),
  /** Whether `prLink` differs from the link before the send. `false` if that link is unknown. */
  prLinkChanged: z.boolean(),
  /**
   * `sent`: the service confirmed it. `inferred`: the job shows it. `assumed`: by `onUnknownDelivery` or an operator.
   */
  delivery: z.enum(['sent', 'inferred', 'assumed']),
  /** Whether the job was seen at work on this message. If not, something else changed, or `settleTime` passed. */
  observedActive: z.boolean(),
  /** When the outcome of the send was known; for an `inferred` or `assumed` delivery, when it was granted. ISO 8601 in UTC. */
  sentAt: z.string(),
  finishedAt: z.string(),
  /** Reads of the job since the send, including failed ones, but not those of a watch that `pollNow` cut short. */
  polls: z.int(),
  /** The job as last read, with all its fields. */
  job: agentJobSchema,
});
export type FollowUpResult = z.infer<typeof followUpResultSchema>;

/** The `ApplicationFailure.type`s with which workflows of this project fail. */
export const FailureType = {
  /** The input breaks a rule; the message names every invalid field. This run sent nothing. */
  InvalidInput: 'InvalidInput',
  /** The service does not know the job. */
  JobNotFound: 'JobNotFound',
  /** The job was archived before the message was sent. */
  JobArchived: 'JobArchived',
  /** The service refused the message; the failure quotes it. An earlier send may have been delivered. */
  MessageRejected: 'MessageRejected',
  /** The delivery is unknown. The message is not sent again. */
  DeliveryUnknown: 'DeliveryUnknown',
  /** `budgetWaitTimeout` passed before the message could be sent, or the history of the workflow was full. */
  BudgetWaitTimeout: 'BudgetWaitTimeout',
  /** `jobTimeout` passed after the send; the details have the job as last read. */
  JobTimeout: 'JobTimeout',
  /** Cancelled. If it is certain that nothing was delivered, the workflow ends as Canceled instead. */
  Cancelled: 'Cancelled',
  /** The key was used before: for another message, or for a send about which no more can be learned. */
  Closed: 'Closed',
} as const;
export type FailureType = (typeof FailureType)[keyof typeof FailureType];

/** The first of an `ApplicationFailure`'s details, for every {@link FailureType}. */
export const failureDetailsSchema = object({
  /** Whether the message reached the service. */
  delivered: z.enum(deliveredValues),
  projectId: z.string().exactOptional(),
  jobId: z.string().exactOptional(),
  /** `InvalidInput`: every broken rule. */
  issues: z.array(inputIssueSchema).exactOptional(),
  /** `MessageRejected`, `JobNotFound`: HTTP status of the service's response. */
  statusCode: z.int().exactOptional(),
  /** `MessageRejected`, `JobNotFound`: the service's text, at most 500 characters, secrets masked. */
  serviceMessage: z.string().exactOptional(),
  /** The job as last read, with all its fields. */
  job: agentJobSchema.exactOptional(),
});
export type FailureDetails = z.infer<typeof failureDetailsSchema>;
