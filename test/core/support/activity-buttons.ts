import { randomUUID } from 'node:crypto';
import type { Client, WorkflowHandle } from '@temporalio/client';
import { defaultPayloadConverter, toPayloads } from '@temporalio/common';
import { msToTs } from '@temporalio/common/lib/time.js';
import { onActivities } from '../../support/buttons.js';
import type { Seen } from '../../../src/follow-up/watch.js';
import { eventually } from '../../support/eventually.js';

type Description = Awaited<ReturnType<WorkflowHandle['describe']>>;
type PendingActivity = NonNullable<Description['raw']['pendingActivities']>[number];

/** Waits for a pending activity of this type, in the newest run of a workflow. */
export function pendingActivity(followUp: WorkflowHandle, type: string): Promise<PendingActivity> {
  return eventually(`${type} is pending`, async () => {
    const { raw } = await followUp.describe();
    return raw.pendingActivities?.find(({ activityType }) => activityType?.name === type);
  });
}

/** What the last heartbeat of a pending watch says. */
export function seenOf({ heartbeatDetails }: PendingActivity): Seen | undefined {
  const [payload] = heartbeatDetails?.payloads ?? [];
  return payload && defaultPayloadConverter.fromPayload(payload);
}

/** What an operator may do to a pending activity. */
export interface Press {
  client: Client;
  followUp: WorkflowHandle;
  activity: PendingActivity;
}

const identify = ({ client, followUp, activity }: Press) => ({
  namespace: client.options.namespace,
  identity: 'operator',
  workflowId: followUp.workflowId,
  activityId: activity.activityId ?? '',
});

/** Completes an activity by hand, as `temporal activity complete` does. */
export async function completeByHand(press: Press, result: unknown): Promise<void> {
  await press.client.workflowService.respondActivityTaskCompletedById({
    ...identify(press),
    result: { payloads: toPayloads(defaultPayloadConverter, result) ?? [] },
  });
}

/** Fails an activity by hand, as `temporal activity fail` does. The server refuses it between two attempts. */
export async function failByHand(press: Press): Promise<void> {
  await press.client.workflowService.respondActivityTaskFailedById({
    ...identify(press),
    failure: { message: 'by hand', source: 'operator', applicationFailureInfo: { nonRetryable: true } },
  });
}

/** Changes options of an activity, as `temporal activity update-options` does. */
async function updateOptions(
  { client, followUp, activity }: Press,
  paths: string[],
  options: NonNullable<Parameters<Client['workflowService']['updateActivityOptions']>[0]['activityOptions']>,
): Promise<void> {
  await client.workflowService.updateActivityOptions({
    namespace: client.options.namespace,
    identity: 'operator',
    execution: { workflowId: followUp.workflowId },
    id: activity.activityId ?? '',
    activityOptions: options,
    updateMask: { paths },
  });
}

async function pauseAndUnpause({ client, followUp, activity }: Press): Promise<void> {
  await onActivities(client, followUp.workflowId, 'pause');
  await eventually('it is paused', async () => {
    const { raw } = await followUp.describe();
    return raw.pendingActivities?.find(({ activityId }) => activityId === activity.activityId)?.paused;
  });
  await onActivities(client, followUp.workflowId, 'unpause');
}

/** All that must harm no activity. */
export const buttons: Record<string, (press: Press) => Promise<unknown>> = {
  'completed by hand with {}': (press) => completeByHand(press, {}),
  'completed by hand with null': (press) => completeByHand(press, null),
  'completed by hand with a text': (press) => completeByHand(press, randomUUID()),
  'failed by hand': failByHand,
  reset: ({ client, followUp }) => onActivities(client, followUp.workflowId, 'reset'),
  'reset with its heartbeats': ({ client, followUp }) => onActivities(client, followUp.workflowId, 'reset-heartbeats'),
  'paused and unpaused': pauseAndUnpause,
  'given more attempts': (press) =>
    updateOptions(press, ['retry_policy.maximum_attempts'], { retryPolicy: { maximumAttempts: 9 } }),
  'given a single attempt': (press) =>
    updateOptions(press, ['retry_policy.maximum_attempts'], { retryPolicy: { maximumAttempts: 1 } }),
  'given more attempts and short timeouts': (press) =>
    updateOptions(press, ['retry_policy.maximum_attempts', 'start_to_close_timeout', 'heartbeat_timeout'], {
      retryPolicy: { maximumAttempts: 9 },
      startToCloseTimeout: msToTs('1s'),
      heartbeatTimeout: msToTs('1s'),
    }),
  'given a short time in all': (press) =>
    updateOptions(press, ['schedule_to_close_timeout'], { scheduleToCloseTimeout: msToTs('1s') }),
};
