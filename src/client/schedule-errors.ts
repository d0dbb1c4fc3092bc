import { FollowUpClientError } from './errors.js';

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
