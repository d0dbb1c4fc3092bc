import { FollowUpClientError } from './errors.js';

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
