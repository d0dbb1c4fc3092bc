import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import {
  deleteWorkflow,
  onActivities,
  pauseWorkflow,
  resetWorkflow,
  sendNonsense,
  unpauseWorkflow,
} from '../support/buttons.js';
import type { StartedFollowUp } from '../../src/client/index.js';
import { eventually, readsAllSignals } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({
    address: inject('temporalAddress'),
    // All clocks are this machine's: a run that was closed before its grant has certainly not used it.
    env: { FOLLOW_UP_MARGIN: '0s' },
    simulator: { autoCreate: true },
  });
});
afterAll(() => stack.stop());

const newProject = () => `op-${randomUUID().slice(0, 8)}`;
const ledgerOf = (projectId: string) => stack.simulator.ledger.filter((entry) => entry.projectId === projectId);
const start = (projectId: string, jobId = 'job', key = 'key') =>
  stack.followUps.start({ projectId, jobId, key, prompt: 'Add tests.', ...FAST });

/** A follow-up that waits for a slot, until {@link letGo}. */
async function startWaiting(projectId: string): Promise<StartedFollowUp> {
  await stack.followUps.budget(projectId).setLimit({ limit: 0 });
  const followUp = await start(projectId);
  await eventually('it waits', async () => (await stack.followUps.budget(projectId).status())?.waitingTotal === 1);
  await eventually('it says so', async () => (await followUp.progress()).state === 'waiting-for-budget');
  return followUp;
}
const letGo = (projectId: string) => stack.followUps.budget(projectId).setLimit({ limit: 10 });

/** A follow-up whose message has arrived, and whose answer takes four seconds. */
async function startSending(projectId: string): Promise<StartedFollowUp> {
  stack.simulator.failNext({ method: 'POST', projectId, when: 'after', how: { dripMs: 4_000 } });
  const followUp = await start(projectId);
  await eventually('its message has arrived', () => ledgerOf(projectId).length === 1);
  return followUp;
}

const endsWell = async (projectId: string, followUp: StartedFollowUp) => {
  expect(await followUp.result()).toMatchObject({ status: 'completed', delivery: 'sent' });
  expect(ledgerOf(projectId)).toHaveLength(1);
};

describe.concurrent('a waiting follow-up', () => {
  test('that is paused in Temporal says so, and continues when it is unpaused', async () => {
    const projectId = newProject();
    const followUp = await startWaiting(projectId);
    await pauseWorkflow(stack.client, followUp.workflowId);
    const fix = `temporal workflow unpause --workflow-id ${followUp.workflowId}`;
    expect(await followUp.trouble()).toMatchObject({ kind: 'paused', fix });
    await expect(followUp.progress()).rejects.toMatchObject({ message: expect.stringContaining(fix) });
    await eventually('it is found', async () => {
      const { troubles } = await stack.followUps.health();
      return troubles.some(({ workflowId }) => workflowId === followUp.workflowId);
    });
    await letGo(projectId);
    await unpauseWorkflow(stack.client, followUp.workflowId);
    await endsWell(projectId, followUp);
    expect(await followUp.trouble()).toBeUndefined();
  });

  test.each(['first', 'last'] as const)('that is reset to its %s task is sent once', async (point) => {
    const projectId = newProject();
    const followUp = await startWaiting(projectId);
    await resetWorkflow(stack.client, followUp.workflowId, point);
    await letGo(projectId);
    await endsWell(projectId, followUp);
  });

  test.each(['terminated', 'deleted'])('that is %s holds up nobody', async (how) => {
    const projectId = newProject();
    const followUp = await startWaiting(projectId);
    if (how === 'deleted') await deleteWorkflow(stack.client, followUp.workflowId);
    else await stack.client.workflow.getHandle(followUp.workflowId).terminate('by hand');
    await letGo(projectId);
    await endsWell(projectId, await start(projectId, 'job', 'next'));
    const ending = how === 'deleted' ? { type: 'FollowUpNotFound' } : { delivered: 'unknown' };
    await expect(followUp.result()).rejects.toMatchObject(ending);
  });

  test('skips nonsense, and refuses invalid updates', async () => {
    const projectId = newProject();
    const followUp = await startWaiting(projectId);
    await sendNonsense(stack.client, followUp.workflowId, ['wake', 'pollNow', 'budgetAnswer']);
    const workflow = stack.client.workflow.getHandle(followUp.workflowId);
    await readsAllSignals(workflow);
    for (const word of [undefined, null, 7, 'perhaps', 'sent']) {
      await expect(workflow.executeUpdate('resolveDelivery', { args: [word] })).rejects.toThrow();
    }
    await letGo(projectId);
    await endsWell(projectId, followUp);
    const { events } = await workflow.fetchHistory();
    expect(events?.filter((event) => event.workflowTaskFailedEventAttributes)).toEqual([]);
  });
});

describe.concurrent('a follow-up whose message is on its way', () => {
  test.each(['pause', 'reset', 'reset-heartbeats'] as const)(
    'is sent once, even if an operator applies %s to its activity',
    { tags: 'long' },
    async (what) => {
      const projectId = newProject();
      const followUp = await startSending(projectId);
      expect(await onActivities(stack.client, followUp.workflowId, what)).toBe(1);
      if (what === 'pause') {
        const fix = expect.stringContaining(`temporal activity unpause --workflow-id ${followUp.workflowId}`) as string;
        expect(await followUp.trouble()).toMatchObject({ kind: 'activityPaused', fix });
      }
      await endsWell(projectId, followUp);
    },
  );

  test('that is paused in Temporal continues when it is unpaused', { tags: 'long' }, async () => {
    const projectId = newProject();
    const followUp = await startSending(projectId);
    await pauseWorkflow(stack.client, followUp.workflowId);
    await eventually('its send has ended', async () => {
      const { raw } = await stack.client.workflow.getHandle(followUp.workflowId).describe();
      return raw.pendingActivities?.length === 0;
    });
    await unpauseWorkflow(stack.client, followUp.workflowId);
    await endsWell(projectId, followUp);
  });
});

describe.concurrent('a follow-up whose agent is at work', () => {
  /** A follow-up whose job stays at work until the test changes it. */
  async function startWatching(projectId: string): Promise<StartedFollowUp> {
    stack.simulator.addJob({ projectId, jobId: 'job', behaviour: { neverEnds: true } });
    const followUp = await start(projectId);
    await eventually('it polls', async () => (await followUp.progress()).state === 'polling');
    return followUp;
  }

  test('reports a paused activity as its trouble, also in the list of troubles, and continues when it is unpaused', async () => {
    const projectId = newProject();
    const followUp = await startWatching(projectId);
    const pause = () => onActivities(stack.client, followUp.workflowId, 'pause');
    await eventually('its watch is paused', async () => (await pause()) === 1);
    const fix = expect.stringContaining(`temporal activity unpause --workflow-id ${followUp.workflowId}`) as string;
    const trouble = { workflowId: followUp.workflowId, kind: 'activityPaused', fix };
    await eventually('it is named', async () => (await followUp.trouble()) !== undefined);
    expect(await followUp.trouble()).toMatchObject(trouble);
    const found = await eventually('it is found', async () => {
      const { troubles } = await stack.followUps.health();
      return troubles.find(({ workflowId }) => workflowId === followUp.workflowId);
    });
    expect(found).toMatchObject(trouble);
    await onActivities(stack.client, followUp.workflowId, 'unpause');
    stack.simulator.changeJob({ projectId, jobId: 'job', status: 'completed' });
    await endsWell(projectId, followUp);
  });
});

describe.concurrent('a follow-up that has ended', () => {
  test.each(['first', 'last'] as const)(
    'that is reset to its %s task is not sent again, and reports the same send and the same end',
    async (point) => {
      const projectId = newProject();
      const followUp = await start(projectId);
      const before = await followUp.result();
      expect(before.prLinkChanged).toBe(true);
      await resetWorkflow(stack.client, followUp.workflowId, point);
      const after = await followUp.result();
      expect(after).toMatchObject({ status: 'completed', delivery: 'sent', prLink: before.prLink });
      expect(Date.parse(after.sentAt)).toBeLessThan(Date.parse(before.finishedAt));
      expect(ledgerOf(projectId)).toHaveLength(1);
    },
  );
});
