import {
  type Client,
  type ScheduleDescription as TemporalDescription,
  ScheduleNotFoundError as TemporalScheduleNotFoundError,
} from '@temporalio/client';
import { WorkflowType } from '../contract/index.js';
import { ForeignScheduleError, ScheduleNotFoundError } from './schedule-errors.js';
import { callTemporal } from './temporal-call.js';

/** A schedule, and the client to reach it. */
export interface ScheduleTarget {
  client: Client;
  name: string;
}

/**
 * One call about a schedule.
 *
 * @throws ScheduleNotFoundError, TemporalUnreachableError
 */
export async function callSchedule<T>({ client, name }: ScheduleTarget, call: () => Promise<T>): Promise<T> {
  try {
    return await callTemporal(client, call);
  } catch (error) {
    if (!(error instanceof TemporalScheduleNotFoundError)) throw error;
    throw new ScheduleNotFoundError(name, { cause: error });
  }
}

/**
 * What Temporal says of a schedule of this project's. Every order begins with it, for the namespace may have other
 * schedules as well.
 *
 * @throws ScheduleNotFoundError, ForeignScheduleError, TemporalUnreachableError
 */
export async function describeSchedule(target: ScheduleTarget): Promise<TemporalDescription> {
  const { client, name } = target;
  const described = await callSchedule(target, () => client.schedule.getHandle(name).describe());
  const { workflowType } = described.action;
  if (workflowType !== WorkflowType.followUpBatch) throw new ForeignScheduleError(name, workflowType);
  return described;
}
