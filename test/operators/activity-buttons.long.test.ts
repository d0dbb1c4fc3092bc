import { randomUUID } from 'node:crypto';
import { defaultPayloadConverter, toPayloads } from '@temporalio/common';
import { msToTs } from '@temporalio/common/lib/time.js';
import { describe, expect, test } from 'vitest';
import type { StartedFollowUp } from '../../src/client/index.js';
import { onActivities } from '../support/buttons.js';
import { eventually } from '../support/eventually.js';
import { reaches, useStack } from '../support/project.js';

const operated = useStack({ env: { FOLLOW_UP_SEND_TIMEOUT: '6s', FOLLOW_UP_DRAIN: '1s' }, leaseMs: 10_000 });
const { newProject } = operated;
const service = () => operated.stack.client.workflowService;

/** Waits for a pending activity of this type. */
const pendingActivity = ({ workflowId }: StartedFollowUp, type: string) =>
  eventually(`${type} is pending`, async () => {
    const { raw } = await operated.stack.client.workflow.getHandle(workflowId).describe();
    return raw.pendingActivities?.find(({ activityType }) => activityType?.name === type);
  });
type Pending = Awaited<ReturnType<typeof pendingActivity>>;

/** What an operator does to a pending activity. */
type Button = (followUp: StartedFollowUp, activity: Pending) => Promise<unknown>;

const identify = ({ workflowId }: StartedFollowUp, { activityId }: Pending) => ({
  ...{ namespace: operated.stack.namespace, identity: 'operator', workflowId, activityId: activityId ?? '' },
});
const complete =
  (result: unknown): Button =>
  (...which) => {
    const payloads = toPayloads(defaultPayloadConverter, result) ?? [];
    return service().respondActivityTaskCompletedById({ ...identify(...which), result: { payloads } });
  };
/** The server refuses it between two attempts. */
const fail: Button = (...which) => {
  const failure = { message: 'by hand', source: 'operator', applicationFailureInfo: { nonRetryable: true } };
  return service().respondActivityTaskFailedById({ ...identify(...which), failure });
};
const apply =
  (...all: Parameters<typeof onActivities>[2][]): Button =>
  async ({ workflowId }) => {
    for (const what of all) {
      await onActivities(operated.stack.client, workflowId, what);
      if (what === 'pause') await eventually('it is paused', async () => (await isPaused(workflowId)) === true);
    }
  };
const isPaused = async (workflowId: string) =>
  (await operated.stack.client.workflow.getHandle(workflowId).describe()).raw.pendingActivities?.[0]?.paused;
const change =
  (activityOptions: object, ...paths: string[]): Button =>
  ({ workflowId }, { activityId }) =>
    service().updateActivityOptions({
      ...{ namespace: operated.stack.namespace, identity: 'operator', execution: { workflowId }, id: activityId ?? '' },
      ...{ activityOptions, updateMask: { paths } },
    });

/** All that must harm no activity. */
const buttons: Record<string, Button> = {
  'completed with {}': complete({}),
  'completed with null': complete(null),
  'completed with a text': complete(randomUUID()),
  'failed by hand': fail,
  reset: apply('reset'),
  'reset with its heartbeats': apply('reset-heartbeats'),
  'paused and unpaused': apply('pause', 'unpause'),
  'given more attempts and short timeouts': change(
    { retryPolicy: { maximumAttempts: 9 }, startToCloseTimeout: msToTs('1s'), heartbeatTimeout: msToTs('1s') },
    ...['retry_policy.maximum_attempts', 'start_to_close_timeout', 'heartbeat_timeout'],
  ),
  'given a single attempt': change({ retryPolicy: { maximumAttempts: 1 } }, 'retry_policy.maximum_attempts'),
  'given a short time in all': change({ scheduleToCloseTimeout: msToTs('1s') }, 'schedule_to_close_timeout'),
};

describe.concurrent('a send on its way', () => {
  const typed = { 'completed as not sent': complete({ outcome: 'notSent', grant: 'run/1' }) };
  const cases = Object.entries({ ...buttons, ...typed }).flatMap(([name, press]) =>
    [false, true].map((hangs) => [hangs ? 'hangs' : 'arrives', name, press] as const),
  );
  test.each(cases)('is delivered once, and counts as delivered, if it %s and is %s', async (how, name, press) => {
    const project = newProject();
    await project.startBudget();
    project.addEndlessJob();
    const release = project.holdMessages('job', 'received');
    const followUp = await project.start('job', { settleTime: '2s' });
    await press(followUp, await pendingActivity(followUp, 'sendMessage'));
    if (how === 'hangs') await reaches(followUp, 'reconciling');
    release();
    await reaches(followUp, 'polling');
    project.endTurn();
    const { status, delivery } = await followUp.result();
    expect(status).toBe('completed');
    expect(how === 'hangs' ? ['inferred'] : ['sent', 'inferred'], name).toContain(delivery);
    expect(project.ledger).toHaveLength(1);
  });
});

describe.concurrent('a watch of a job at work', () => {
  const forged = {
    'completed with an end without a job': complete({ kind: 'ended', observation: { polls: 1 } }),
    'completed with an end without a status': complete({ kind: 'ended', job: {}, observation: { polls: 1 } }),
    'completed with an unknown kind': complete({ kind: 'rubbish', observation: { polls: 1 } }),
    'completed with an end that nobody observed': complete({ kind: 'ended', job: { status: 'completed' } }),
  };
  test.each(Object.entries({ ...buttons, ...forged }))(
    'continues to the end of the turn if it is %s',
    async (_, press) => {
      const project = newProject();
      project.addEndlessJob();
      const followUp = await project.start();
      await press(followUp, await pendingActivity(followUp, 'watchJob'));
      await pendingActivity(followUp, 'watchJob');
      await reaches(followUp, 'polling');
      project.endTurn();
      await project.endWell([followUp]);
    },
  );
});

describe.concurrent('an ask that the server repeats', () => {
  const forged = {
    'completed with an unknown kind': complete({ kind: 'rubbish' }),
    'completed with an unknown reply': complete({ kind: 'asked', reply: { kind: 'rubbish' }, startToCloseMs: 1 }),
    'completed with an empty grant': complete({ kind: 'asked', reply: { kind: 'granted' }, startToCloseMs: 1_000 }),
    'completed with a missing archived job': complete({ kind: 'archived' }),
  };
  const { 'failed by hand': _, ...others } = buttons;
  test.each(Object.entries({ ...others, ...forged }))(
    'continues if it is %s, and its message is sent once',
    async (_, press) => {
      const project = newProject();
      await project.budget.resume();
      await project.workflow().terminate();
      const followUp = await project.start();
      await reaches(followUp, 'blocked', 'budget-stopped');
      await press(followUp, await pendingActivity(followUp, 'askForSlot'));
      await project.budget.restore();
      await followUp.pollNow();
      await project.endWell([followUp]);
    },
  );
});
