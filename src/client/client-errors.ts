import type { z } from 'zod';
import {
  type Delivered,
  describeIssues,
  type FailureDetails,
  type FailureType,
  followUpBatchWorkflowId,
  type InputIssue,
  parseInput,
  projectBudgetWorkflowId,
} from '../contract/index.js';
import { FollowUpClientError, TemporalUnreachableError } from '../temporal/unreachable-error.js';

export { FollowUpClientError, TemporalUnreachableError };

/** Thrown when an input breaks a rule, before anything is sent. Names every invalid field. */
export class InvalidInputError extends FollowUpClientError {
  override readonly name = 'InvalidInputError' as const;
  readonly type = 'InvalidInput' as const;
  readonly exitCode = 2;
  readonly delivered = 'no' as const;

  constructor(readonly issues: readonly InputIssue[]) {
    super(describeIssues(issues));
  }

  /**
   * The input as its schema returns it, with defaults.
   *
   * @throws InvalidInputError
   */
  static check<T>(schema: z.ZodType<T>, input: unknown): T {
    const parsed = parseInput(schema, input);
    if (!parsed.ok) throw new InvalidInputError(parsed.issues);
    return parsed.value;
  }
}

/** Thrown when a workflow does not answer, usually because no worker runs. The workflow itself is unharmed. */
export class WorkerUnavailableError extends FollowUpClientError {
  override readonly name = 'WorkerUnavailableError' as const;
  readonly type = 'WorkerUnavailable' as const;
  readonly exitCode = 1;

  constructor(
    readonly workflowId: string,
    readonly reason: string,
    options?: ErrorOptions,
  ) {
    super(`${workflowId} does not answer: ${reason}`, options);
  }
}

/**
 * Thrown when a follow-up ended without a result.
 *
 * `type` is one of this project's failure types, or:
 * - `Terminated`: an operator terminated the workflow.
 * - `TimedOut`: Temporal ended it at a timeout that its starter had set.
 * - `Unexpected`: it ended in a way that this version does not know: of a newer version, or not a follow-up.
 */
export class FollowUpFailedError extends FollowUpClientError {
  override readonly name = 'FollowUpFailedError' as const;
  readonly exitCode = 4;

  constructor(
    readonly workflowId: string,
    readonly type: FailureType | 'Terminated' | 'TimedOut' | 'Unexpected',
    message: string,
    readonly details: FailureDetails,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }

  /** Whether the message reached the service. */
  get delivered(): Delivered {
    return this.details.delivered;
  }
}

/** Thrown when a batch ended without a result: it was terminated, or failed. Its follow-ups continue. */
export class BatchFailedError extends FollowUpClientError {
  override readonly name = 'BatchFailedError' as const;
  readonly exitCode = 4;
  readonly workflowId: string;

  constructor(
    readonly batchId: string,
    /** `InvalidInput`, `Terminated`, or another failure's type. */
    readonly type: string,
    reason: string,
    /** With `InvalidInput`: every broken rule. */
    readonly issues: readonly InputIssue[] = [],
    options?: ErrorOptions,
  ) {
    const rest = type === 'InvalidInput' ? '' : `; its follow-ups continue: follow-up list --batch ${batchId}`;
    super(`batch ${batchId} ended without a result: ${reason}${rest}`, options);
    this.workflowId = followUpBatchWorkflowId({ batchId });
  }
}

/** Messages of {@link RefusedError} by type. `id` is the subject of the request, `why` a detail from the caller. */
const refusedRequests = {
  FollowUpNotFound: (id: string) =>
    `no follow-up has the id ${id}; run "follow-up list" to see those that Temporal still keeps`,
  FollowUpEnded: (id: string) => `${id} has already ended; you can still read its result`,
  TooManySignals: (id: string) =>
    `${id} accepts no more signals: its run has had as many as Temporal allows; it continues without them`,
  ResolveRejected: (_id: string, why: string) => why,
  BatchNotFound: (id: string) => `no batch has the id ${id}, or Temporal no longer keeps it`,
  BatchInputDiffers: (id: string) =>
    `batch ${id} was already started with different input; nothing was sent. Use another id for this input`,
  BatchEnded: (id: string, why: string) => `batch ${id} ${why || 'has already ended; you can still read its result'}`,
  BatchNotHeld: (id: string) => `batch ${id} is not held; there is nothing to continue`,
  BatchRunning: (id: string) =>
    `batch ${id} is still running: you can retry it after it ends, and "follow-up batch cancel" ends it early`,
  BatchPartNotFound: (id: string) =>
    `the items of batch ${id} cannot be read: Temporal no longer keeps one of its parts`,
  NothingToRetry: (id: string) => `batch ${id} has no item to retry`,
  BudgetStopped: (id: string) =>
    `the budget of ${id} is stopped and accepts no commands; run "follow-up budget restore ${id}" to start it again`,
  BudgetRunning: (id: string) =>
    `the budget of ${id} is running: there is nothing to restore; if it does not answer, start a worker`,
  BudgetPaused: (id: string, why: string) => `the budget of ${id} ${why}`,
  BudgetNotFound: (id: string) => `project ${id} has no budget yet: it gets one with its first follow-up`,
  BudgetUpdateRejected: (_id: string, why: string) => why,
  ScheduleExists: (id: string) => `schedule ${id} already exists`,
  ScheduleNotFound: (id: string) => `schedule ${id} does not exist`,
  ForeignSchedule: (id: string, why: string) => `schedule ${id} ${why}`,
  SearchAttributesMissing: (id: string) =>
    `namespace ${id} has no search attributes for follow-ups; run "follow-up setup" or start a worker`,
};

/** Why a request is refused. See docs/reference/errors.md. */
export type RefusedRequest = keyof typeof refusedRequests;

/** Refusals that the caller's input does not cause. */
const NOT_BY_INPUT: readonly RefusedRequest[] = [
  'TooManySignals',
  'BudgetStopped',
  'BudgetPaused',
  'BudgetUpdateRejected',
  'SearchAttributesMissing',
];

/**
 * Thrown when the state of a request's subject does not allow it; `type` says which state. Nothing was changed or sent.
 */
export class RefusedError extends FollowUpClientError {
  override readonly name = 'RefusedError' as const;
  readonly exitCode: number;
  /** The workflow of the request. Missing for schedules and namespaces. */
  readonly workflowId?: string;

  constructor(
    readonly type: RefusedRequest,
    /** Workflow id of a follow-up, or id of a batch, project, schedule or namespace. */
    readonly id: string,
    { why = '', ...options }: ErrorOptions & { why?: string } = {},
  ) {
    super(refusedRequests[type](id, why), options);
    this.exitCode = NOT_BY_INPUT.includes(type) ? 1 : 2;
    if (/^(FollowUp|Resolve|TooMany)/.test(type)) this.workflowId = id;
    if (/^(Batch|Nothing)/.test(type)) this.workflowId = followUpBatchWorkflowId({ batchId: id });
    if (type.startsWith('Budget')) this.workflowId = projectBudgetWorkflowId(id);
  }

  /** Whether an error is a refusal of this type. */
  static is(error: unknown, type: RefusedRequest): error is RefusedError {
    return error instanceof RefusedError && error.type === type;
  }
}
