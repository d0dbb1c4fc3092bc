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
  /** Nobody can tell whether the message was delivered. It is not sent again. */
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

/** Whether the message reached the service. `unknown`: nobody can tell. */
export type Delivered = 'yes' | 'no' | 'unknown';

/** The first of an `ApplicationFailure`'s details, for every {@link FailureType}. */
export interface FailureDetails {
  delivered: Delivered;
  projectId?: string;
  jobId?: string;
  /** `InvalidInput`: every rule that was broken. */
  issues?: InputIssue[];
  /** `MessageRejected`, `JobNotFound`: HTTP status of the service's answer. */
  statusCode?: number;
  /** `MessageRejected`, `JobNotFound`: the service's words, at most 500 characters, secrets masked. */
  serviceMessage?: string;
  /** The last job seen, with all its fields. */
  job?: unknown;
}

/** One broken rule of an input. */
export interface InputIssue {
  /** Path of the field, such as `poll.maxInterval`; empty for the input as a whole. */
  field: string;
  /** The rule, and what was given. */
  message: string;
}
