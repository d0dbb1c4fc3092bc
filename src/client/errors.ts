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
