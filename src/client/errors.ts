import {
  type Delivered,
  describeIssues,
  type FailureDetails,
  type FailureType,
  type InputIssue,
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

/** Thrown when the workflow failed with one of this project's failure types. */
export class FollowUpFailedError extends FollowUpClientError {
  override readonly name = 'FollowUpFailedError' as const;

  constructor(
    readonly workflowId: string,
    readonly type: FailureType,
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

/** Thrown when the follow-up was cancelled before anything was sent. */
export class FollowUpCancelledError extends FollowUpClientError {
  override readonly name = 'FollowUpCancelledError' as const;
  readonly delivered = 'no' as const;

  constructor(
    readonly workflowId: string,
    options?: ErrorOptions,
  ) {
    super('the follow-up was cancelled before its message was sent', options);
  }
}

/** Thrown when somebody terminated the workflow: it had no chance to say whether the message was delivered. */
export class FollowUpTerminatedError extends FollowUpClientError {
  override readonly name = 'FollowUpTerminatedError' as const;
  readonly delivered = 'unknown' as const;

  constructor(
    readonly workflowId: string,
    readonly reason: string,
    options?: ErrorOptions,
  ) {
    super(`the workflow was terminated: ${reason}; whether the message was delivered is not known`, options);
  }
}

/** Thrown when Temporal ended the workflow at an execution or run timeout that its starter had set. */
export class FollowUpTimedOutError extends FollowUpClientError {
  override readonly name = 'FollowUpTimedOutError' as const;
  readonly delivered = 'unknown' as const;

  constructor(
    readonly workflowId: string,
    options?: ErrorOptions,
  ) {
    super('the workflow reached its Temporal timeout; whether the message was delivered is not known', options);
  }
}

/** Thrown when the workflow ended in a way that this version does not know: of a newer version, or not a follow-up. */
export class UnexpectedOutcomeError extends FollowUpClientError {
  override readonly name = 'UnexpectedOutcomeError' as const;
  readonly delivered = 'unknown' as const;

  constructor(
    readonly workflowId: string,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Thrown when there is no such workflow: the id is wrong, or the namespace's retention has passed. */
export class FollowUpNotFoundError extends FollowUpClientError {
  override readonly name = 'FollowUpNotFoundError' as const;

  constructor(
    readonly workflowId: string,
    options?: ErrorOptions,
  ) {
    super(
      `no follow-up has the id ${workflowId}; run "follow-up list" to see those that Temporal still keeps`,
      options,
    );
  }
}

/** Thrown when a message (cancel, pollNow, resolve) comes after the follow-up's end. */
export class FollowUpEndedError extends FollowUpClientError {
  override readonly name = 'FollowUpEndedError' as const;

  constructor(
    readonly workflowId: string,
    options?: ErrorOptions,
  ) {
    super(`${workflowId} has already ended; you can still read its result`, options);
  }
}

/** Thrown when the workflow refuses an operator's word, which it takes only while it is reconciling. */
export class ResolveRejectedError extends FollowUpClientError {
  override readonly name = 'ResolveRejectedError' as const;

  constructor(
    readonly workflowId: string,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Thrown when a workflow does not answer: mostly because no worker runs. The workflow itself is unharmed. */
export class WorkerUnavailableError extends FollowUpClientError {
  override readonly name = 'WorkerUnavailableError' as const;

  constructor(
    readonly workflowId: string,
    readonly reason: string,
    options?: ErrorOptions,
  ) {
    super(`${workflowId} does not answer: ${reason}`, options);
  }
}

/**
 * Thrown when Temporal cannot be used: it does not answer, refuses the credentials, or lacks the namespace. A start that
 * fails so may have taken effect: start again with the same key, which is safe at any time.
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

/** Thrown when there is no such batch: the id is wrong, or the namespace's retention has passed. */
export class BatchNotFoundError extends FollowUpClientError {
  override readonly name = 'BatchNotFoundError' as const;

  constructor(
    readonly workflowId: string,
    readonly batchId: string,
    options?: ErrorOptions,
  ) {
    super(`no batch has the id ${batchId}, or Temporal no longer keeps it`, options);
  }
}

/** Thrown when the id of a batch was used before, with other items or settings. Nothing was sent for this call. */
export class BatchInputDiffersError extends FollowUpClientError {
  override readonly name = 'BatchInputDiffersError' as const;

  constructor(
    readonly workflowId: string,
    readonly batchId: string,
  ) {
    super(`batch ${batchId} was already started with different input; nothing was sent. Use another id for this input`);
  }
}

/** Thrown when an order comes after the batch's end. */
export class BatchEndedError extends FollowUpClientError {
  override readonly name = 'BatchEndedError' as const;

  constructor(
    readonly workflowId: string,
    readonly batchId: string,
    options?: ErrorOptions,
  ) {
    super(`batch ${batchId} has already ended; you can still read its result`, options);
  }
}

/** Thrown when a batch is to be retried that has not ended: which items that means is not known yet. */
export class BatchRunningError extends FollowUpClientError {
  override readonly name = 'BatchRunningError' as const;

  constructor(
    readonly workflowId: string,
    readonly batchId: string,
  ) {
    super(
      `batch ${batchId} is still running: you can retry it after it ends, and "follow-up batch cancel" ends it early`,
    );
  }
}

/** Thrown when a retry has nothing to send: no item ended in a way that it is for. */
export class NothingToRetryError extends FollowUpClientError {
  override readonly name = 'NothingToRetryError' as const;

  constructor(
    readonly workflowId: string,
    readonly batchId: string,
    leftOut: { delivered: number; open: number } = { delivered: 0, open: 0 },
  ) {
    const { delivered, open } = leftOut;
    const reasons = [
      delivered > 0 ? `${delivered} ${delivered === 1 ? 'was' : 'were'} delivered, as is known by now` : '',
      open > 0 ? `the follow-ups of ${open} still run` : '',
    ].filter(Boolean);
    super(`batch ${batchId} has no item to retry${reasons.length > 0 ? `: ${reasons.join(', ')}` : ''}`);
  }
}

/** Thrown when the batch's workflow ended without a result: it was terminated, or failed. Its follow-ups go on. */
export class BatchFailedError extends FollowUpClientError {
  override readonly name = 'BatchFailedError' as const;

  constructor(
    readonly workflowId: string,
    readonly batchId: string,
    /** `InvalidInput`, `Terminated`, or another failure's type. */
    readonly type: string,
    reason: string,
    /** `InvalidInput`: every rule that was broken. */
    readonly issues: readonly InputIssue[] = [],
    options?: ErrorOptions,
  ) {
    super(
      `batch ${batchId} ended without a result: ${reason}; its follow-ups go on: follow-up list --batch ${batchId}`,
      options,
    );
  }
}

/** Thrown when the budget's workflow was stopped, so that nothing is sent until it is restored. */
export class BudgetStoppedError extends FollowUpClientError {
  override readonly name = 'BudgetStoppedError' as const;

  constructor(
    readonly workflowId: string,
    readonly projectId: string,
    options?: ErrorOptions,
  ) {
    super(
      `the budget of ${projectId} is stopped and accepts no commands; run "follow-up budget restore ${projectId}" to restart it from its last state`,
      options,
    );
  }
}

/** Thrown when a budget that runs should be restored. Nothing was changed. */
export class BudgetRunningError extends FollowUpClientError {
  override readonly name = 'BudgetRunningError' as const;

  constructor(
    readonly workflowId: string,
    readonly projectId: string,
    options?: ErrorOptions,
  ) {
    super(`the budget of ${projectId} is running: there is nothing to restore`, options);
  }
}

/** Thrown when a budget should be restored that somebody paused in Temporal: it goes on when it is unpaused. */
export class BudgetPausedError extends FollowUpClientError {
  override readonly name = 'BudgetPausedError' as const;

  constructor(
    readonly workflowId: string,
    readonly projectId: string,
    trouble: { what: string; mend: string },
    options?: ErrorOptions,
  ) {
    super(`the budget of ${projectId} ${trouble.what}; nothing is lost, it goes on with: ${trouble.mend}`, options);
  }
}

/** Thrown when a budget should be restored that never was, or that the namespace's retention has removed. */
export class BudgetNotFoundError extends FollowUpClientError {
  override readonly name = 'BudgetNotFoundError' as const;

  constructor(
    readonly workflowId: string,
    readonly projectId: string,
    options?: ErrorOptions,
  ) {
    super(`project ${projectId} has no budget to restore: it gets one with its first follow-up`, options);
  }
}

/** Thrown when the history of a budget's last run does not tell what it knew. Nothing was changed. */
export class BudgetStateLostError extends FollowUpClientError {
  override readonly name = 'BudgetStateLostError' as const;

  constructor(
    readonly workflowId: string,
    readonly projectId: string,
    readonly reason: string,
    options?: ErrorOptions,
  ) {
    super(
      `the last state of the budget of ${projectId} cannot be read: ${reason}; "follow-up budget restore ${projectId} --assume-full" starts it with every slot taken`,
      options,
    );
  }
}

/** Thrown when the budget's workflow refuses an order for a reason that this version does not know. */
export class BudgetUpdateRejectedError extends FollowUpClientError {
  override readonly name = 'BudgetUpdateRejectedError' as const;

  constructor(
    readonly workflowId: string,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Thrown when a schedule is to be created under a name that is taken. Nothing was changed. */
export class ScheduleExistsError extends FollowUpClientError {
  override readonly name = 'ScheduleExistsError' as const;

  constructor(
    readonly schedule: string,
    options?: ErrorOptions,
  ) {
    super(
      `schedule ${schedule} already exists; run "follow-up schedule describe ${schedule}" to see it, and delete it before you reuse its name`,
      options,
    );
  }
}

/** Thrown when there is no schedule of that name: it never was, was deleted, or has had its last firing a week ago. */
export class ScheduleNotFoundError extends FollowUpClientError {
  override readonly name = 'ScheduleNotFoundError' as const;

  constructor(
    readonly schedule: string,
    options?: ErrorOptions,
  ) {
    super(`no schedule is named ${schedule}; run "follow-up schedule list" to see all schedules`, options);
  }
}

/** Thrown when the schedule of that name starts something else than batches of follow-ups. Nothing was changed. */
export class ForeignScheduleError extends FollowUpClientError {
  override readonly name = 'ForeignScheduleError' as const;

  constructor(
    readonly schedule: string,
    readonly workflowType: string,
  ) {
    super(`schedule ${schedule} starts ${workflowType}, not batches of follow-ups; nothing was changed`);
  }
}
