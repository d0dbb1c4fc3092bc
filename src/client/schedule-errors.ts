import { FollowUpClientError } from './errors.js';

/** Thrown when a schedule is to be created under a name that is taken. Nothing was changed. */
export class ScheduleExistsError extends FollowUpClientError {
  override readonly name = 'ScheduleExistsError' as const;

  constructor(
    readonly schedule: string,
    options?: ErrorOptions,
  ) {
    super(
      `there is a schedule ${schedule} already; "follow-up schedule describe ${schedule}" shows it, and it has to be deleted before another can have its name`,
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
    super(`there is no schedule ${schedule}; "follow-up schedule list" shows those that there are`, options);
  }
}

/** Thrown when the schedule of that name starts something else than batches of follow-ups. Nothing was changed. */
export class ForeignScheduleError extends FollowUpClientError {
  override readonly name = 'ForeignScheduleError' as const;

  constructor(
    readonly schedule: string,
    readonly workflowType: string,
  ) {
    super(`schedule ${schedule} starts ${workflowType}, and no batches of follow-ups: it is left alone`);
  }
}
