import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ScheduleDescription as TemporalDescription } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { msToTs } from '@temporalio/common/lib/time.js';
import { firingBatchId, firingWorkflowId } from './schedule-firing-id.js';
import { callSchedule, describeSchedule, type ScheduleTarget } from './schedule-target.js';
import { callTemporal } from './temporal-call.js';

/** The server takes an order at once, and carries it out within some 100 ms. */
const EFFECT_TIMEOUT_MS = 5_000;
const LOOK_INTERVAL_MS = 100;

/** A firing by hand. */
export interface TriggeredFiring {
  /**
   * `started`; `skipped`, for the one before is still running; `buffered`: it starts when that one has ended;
   * `accepted`: the server has taken the order, and not carried it out within 5 s.
   */
  outcome: 'started' | 'skipped' | 'buffered' | 'accepted';
  /** Of the batch that it starts, or would have started. */
  batchId: string;
  workflowId: string;
}

/** See `ScheduleHandle.trigger`. */
export async function triggerSchedule(target: ScheduleTarget): Promise<TriggeredFiring> {
  const { client, name } = target;
  const before = await describeSchedule(target);
  const at = await freeSecond(target, before);
  const firing = { batchId: firingBatchId(name, at), workflowId: firingWorkflowId(name, at) };
  const { namespace, identity } = client.options;
  await callSchedule(target, () =>
    client.schedule.workflowService.patchSchedule({
      namespace,
      scheduleId: name,
      identity,
      requestId: randomUUID(),
      // Without an overlap policy of its own the schedule's counts. The SDK's `trigger` would say allow-all.
      patch: { triggerImmediately: { scheduledTime: msToTs(at.getTime()) } },
    }),
  );
  const deadlineMs = Date.now() + EFFECT_TIMEOUT_MS;
  do {
    const now = await describeSchedule(target);
    if (now.info.recentActions.some(({ action }) => action.workflow.workflowId === firing.workflowId)) {
      return { outcome: 'started', ...firing };
    }
    if (now.info.numActionsSkippedOverlap > before.info.numActionsSkippedOverlap)
      return { outcome: 'skipped', ...firing };
    if (bufferSize(now) > bufferSize(before)) return { outcome: 'buffered', ...firing };
    await sleep(LOOK_INTERVAL_MS);
  } while (Date.now() < deadlineMs);
  return { outcome: 'accepted', ...firing };
}

/**
 * The first second from now on that no firing has. The second makes the batch's id: of two firings in the same one,
 * Temporal would drop one without a word.
 */
async function freeSecond({ client, name }: ScheduleTarget, { info }: TemporalDescription): Promise<Date> {
  const due = new Set(info.nextActionTimes.map((time) => toSecond(time.getTime())));
  for (let atMs = toSecond(Date.now()); ; atMs += 1_000) {
    if (due.has(atMs)) continue;
    const at = new Date(atMs);
    try {
      await callTemporal(client, () => client.workflow.getHandle(firingWorkflowId(name, at)).describe());
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return at;
      throw error;
    }
  }
}

function toSecond(ms: number): number {
  return Math.floor(ms / 1_000) * 1_000;
}

function bufferSize({ raw }: TemporalDescription): number {
  return raw.info?.bufferSize?.toNumber() ?? 0;
}
