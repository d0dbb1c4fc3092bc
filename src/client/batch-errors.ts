import type { InputIssue } from '../contract/index.js';
import { FollowUpClientError } from './errors.js';

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
