import {
  type Delivered,
  describeIssues,
  type FailureDetails,
  type FailureType,
  followUpBatchWorkflowId,
  type InputIssue,
  projectBudgetWorkflowId,
} from '../contract/index.js';

/** Every error that this library throws on purpose. */
export abstract class FollowUpClientError extends Error {
  abstract override readonly name: string;
}

/** Thrown when an input breaks a rule, before anything is sent anywhere. Names every bad field. */
export class InvalidInputError extends FollowUpClientError {
  override readonly name = 'InvalidInputError' as const;
  readonly delivered = 'no' as const;

  constructor(readonly issues: readonly InputIssue[]) {
    super(describeIssues(issues));
  }
}

/**
 * Thrown when Temporal cannot be used: it does not answer, refuses the credentials, or lacks the namespace. A start
 * that fails with this error may have taken effect: start again with the same key, which is safe at any time.
 */
export class TemporalUnreachableError extends FollowUpClientError {
  override readonly name = 'TemporalUnreachableError' as const;
  readonly delivered = 'unknown' as const;

  constructor(
    readonly address: string | undefined,
    readonly reason: string,
    /** The follow-up that was being started or waited for. */
    readonly workflowId?: string,
    options?: ErrorOptions,
  ) {
    super(`Temporal${address ? ` at ${address}` : ''} cannot be reached: ${reason}`, options);
  }
}

/** Thrown when the namespace has no search attributes of this project: `follow-up setup` or a worker adds them. */
export class SearchAttributesMissingError extends FollowUpClientError {
  override readonly name = 'SearchAttributesMissingError' as const;
  readonly delivered = 'no' as const;

  constructor(
    readonly namespace: string,
    options?: ErrorOptions,
  ) {
    super(
      `namespace ${namespace} has no search attributes for follow-ups; run "follow-up setup" or start a worker`,
      options,
    );
  }
}

/** An error about one workflow. */
abstract class WorkflowError extends FollowUpClientError {
  constructor(
    readonly workflowId: string,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Thrown when the workflow failed with one of this project's failure types. */
export class FollowUpFailedError extends WorkflowError {
  override readonly name = 'FollowUpFailedError' as const;

  constructor(
    workflowId: string,
    readonly type: FailureType,
    message: string,
    readonly details: FailureDetails,
    options?: ErrorOptions,
  ) {
    super(workflowId, message, options);
  }

  /** Whether the message reached the service. */
  get delivered(): Delivered {
    return this.details.delivered;
  }
}

/** Thrown when the follow-up was cancelled before anything was sent. */
export class FollowUpCancelledError extends WorkflowError {
  override readonly name = 'FollowUpCancelledError' as const;
  readonly delivered = 'no' as const;

  constructor(workflowId: string, options?: ErrorOptions) {
    super(workflowId, 'the follow-up was cancelled before its message was sent', options);
  }
}

/** Thrown when somebody terminated the workflow: it had no chance to say whether the message was delivered. */
export class FollowUpTerminatedError extends WorkflowError {
  override readonly name = 'FollowUpTerminatedError' as const;
  readonly delivered = 'unknown' as const;

  constructor(
    workflowId: string,
    readonly reason: string,
    options?: ErrorOptions,
  ) {
    super(
      workflowId,
      `the workflow was terminated: ${reason}; whether the message was delivered is not known`,
      options,
    );
  }
}

/** Thrown when Temporal ended the workflow at an execution or run timeout that its starter had set. */
export class FollowUpTimedOutError extends WorkflowError {
  override readonly name = 'FollowUpTimedOutError' as const;
  readonly delivered = 'unknown' as const;

  constructor(workflowId: string, options?: ErrorOptions) {
    super(
      workflowId,
      'the workflow reached its Temporal timeout; whether the message was delivered is not known',
      options,
    );
  }
}

/** Thrown when the workflow ended in a way that this version does not know: of a newer version, or not a follow-up. */
export class UnexpectedOutcomeError extends WorkflowError {
  override readonly name = 'UnexpectedOutcomeError' as const;
  readonly delivered = 'unknown' as const;
}

/** Thrown when there is no such workflow: the id is wrong, or the namespace's retention has passed. */
export class FollowUpNotFoundError extends WorkflowError {
  override readonly name = 'FollowUpNotFoundError' as const;

  constructor(workflowId: string, options?: ErrorOptions) {
    const message = `no follow-up has the id ${workflowId}; run "follow-up list" to see those that Temporal still keeps`;
    super(workflowId, message, options);
  }
}

/** Thrown when a message (cancel, pollNow, resolve) comes after the follow-up's end. */
export class FollowUpEndedError extends WorkflowError {
  override readonly name = 'FollowUpEndedError' as const;

  constructor(workflowId: string, options?: ErrorOptions) {
    super(workflowId, `${workflowId} has already ended; you can still read its result`, options);
  }
}

/** Thrown when the workflow refuses an operator's word, which it accepts only while it is reconciling. */
export class ResolveRejectedError extends WorkflowError {
  override readonly name = 'ResolveRejectedError' as const;
}

/** Thrown when a workflow does not answer, usually because no worker runs. The workflow itself is unharmed. */
export class WorkerUnavailableError extends WorkflowError {
  override readonly name = 'WorkerUnavailableError' as const;

  constructor(
    workflowId: string,
    readonly reason: string,
    options?: ErrorOptions,
  ) {
    super(workflowId, `${workflowId} does not answer: ${reason}`, options);
  }
}

/** An error about one batch. */
abstract class BatchError extends WorkflowError {
  constructor(
    readonly batchId: string,
    message: string,
    options?: ErrorOptions,
  ) {
    super(followUpBatchWorkflowId({ batchId }), message, options);
  }
}

/** Thrown when there is no such batch: the id is wrong, or the namespace's retention has passed. */
export class BatchNotFoundError extends BatchError {
  override readonly name = 'BatchNotFoundError' as const;

  constructor(batchId: string, options?: ErrorOptions) {
    super(batchId, `no batch has the id ${batchId}, or Temporal no longer keeps it`, options);
  }
}

/** Thrown when the id of a batch was used before, with other items or settings. Nothing was sent for this call. */
export class BatchInputDiffersError extends BatchError {
  override readonly name = 'BatchInputDiffersError' as const;

  constructor(batchId: string) {
    super(
      batchId,
      `batch ${batchId} was already started with different input; nothing was sent. Use another id for this input`,
    );
  }
}

/** Thrown when an order comes after the batch's end. */
export class BatchEndedError extends BatchError {
  override readonly name = 'BatchEndedError' as const;

  /** @param what how, if not just that it has ended */
  constructor(batchId: string, options?: ErrorOptions, what = 'has already ended; you can still read its result') {
    super(batchId, `batch ${batchId} ${what}`, options);
  }
}

/** Thrown when a batch is to continue that is not held and has no canary. */
export class BatchNotHeldError extends BatchError {
  override readonly name = 'BatchNotHeldError' as const;

  constructor(batchId: string, options?: ErrorOptions) {
    super(batchId, `batch ${batchId} is not held; there is nothing to continue`, options);
  }
}

/** Thrown when a running batch is to be retried: which items to retry is not known before it ends. */
export class BatchRunningError extends BatchError {
  override readonly name = 'BatchRunningError' as const;

  constructor(batchId: string) {
    super(
      batchId,
      `batch ${batchId} is still running: you can retry it after it ends, and "follow-up batch cancel" ends it early`,
    );
  }
}

/** Thrown when a retry has nothing to send: no item ended in a way that a retry is for. */
export class NothingToRetryError extends BatchError {
  override readonly name = 'NothingToRetryError' as const;

  constructor(
    batchId: string,
    { delivered, open, neverStarted }: { delivered: number; open: number; neverStarted: number },
  ) {
    const reasons = [
      delivered > 0 ? `${delivered} ${delivered === 1 ? 'is' : 'are'} already delivered` : '',
      open > 0 ? `the follow-ups of ${open} still run` : '',
      neverStarted > 0 ? `the last ${neverStarted} were never started: send them as a new batch` : '',
    ].filter(Boolean);
    super(batchId, `batch ${batchId} has no item to retry${reasons.length > 0 ? `: ${reasons.join(', ')}` : ''}`);
  }
}

/** Thrown when the batch's workflow ended without a result: it was terminated, or failed. Its follow-ups continue. */
export class BatchFailedError extends BatchError {
  override readonly name = 'BatchFailedError' as const;

  constructor(
    batchId: string,
    /** `InvalidInput`, `Terminated`, or another failure's type. */
    readonly type: string,
    reason: string,
    /** With `InvalidInput`: every broken rule. */
    readonly issues: readonly InputIssue[] = [],
    options?: ErrorOptions,
  ) {
    super(
      batchId,
      `batch ${batchId} ended without a result: ${reason}` +
        (type === 'InvalidInput' ? '' : `; its follow-ups continue: follow-up list --batch ${batchId}`),
      options,
    );
  }
}

/** An error about the budget of one project. */
abstract class BudgetError extends WorkflowError {
  constructor(
    readonly projectId: string,
    message: string,
    options?: ErrorOptions,
  ) {
    super(projectBudgetWorkflowId(projectId), message, options);
  }
}

/** Thrown when the budget's workflow was stopped, so that nothing is sent until it is restored. */
export class BudgetStoppedError extends BudgetError {
  override readonly name = 'BudgetStoppedError' as const;

  constructor(projectId: string, options?: ErrorOptions) {
    super(
      projectId,
      `the budget of ${projectId} is stopped and accepts no commands; run "follow-up budget restore ${projectId}" to start it again`,
      options,
    );
  }
}

/** Thrown when the budget to restore is running. Nothing was changed. */
export class BudgetRunningError extends BudgetError {
  override readonly name = 'BudgetRunningError' as const;

  constructor(projectId: string, options?: ErrorOptions) {
    super(projectId, `the budget of ${projectId} is running: there is nothing to restore`, options);
  }
}

/** Thrown when the budget to restore is only paused in Temporal: it continues when it is unpaused. */
export class BudgetPausedError extends BudgetError {
  override readonly name = 'BudgetPausedError' as const;

  constructor(projectId: string, { what, fix }: { what: string; fix: string }) {
    super(projectId, `the budget of ${projectId} ${what}; nothing is lost; to continue, run: ${fix}`);
  }
}

/** Thrown when the budget to restore never existed, or was removed after the namespace's retention. */
export class BudgetNotFoundError extends BudgetError {
  override readonly name = 'BudgetNotFoundError' as const;

  constructor(projectId: string, options?: ErrorOptions) {
    super(projectId, `project ${projectId} has no budget to restore: it gets one with its first follow-up`, options);
  }
}

/** Thrown when the budget's workflow refuses an order for a reason that this version does not know. */
export class BudgetUpdateRejectedError extends BudgetError {
  override readonly name = 'BudgetUpdateRejectedError' as const;
}

/** Thrown when a schedule's name is taken, unknown, or used for something else. Nothing was changed. */
export class ScheduleError extends FollowUpClientError {
  override readonly name = 'ScheduleError' as const;

  constructor(
    /** `ForeignSchedule`: it starts something other than batches of follow-ups. */
    readonly type: 'ScheduleExists' | 'ScheduleNotFound' | 'ForeignSchedule',
    readonly schedule: string,
    reason: string,
    options?: ErrorOptions,
  ) {
    super(`schedule ${schedule} ${reason}`, options);
  }
}
