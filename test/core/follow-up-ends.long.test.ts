import { describe, expect, test } from 'vitest';
import { deleteWorkflow } from '../support/buttons.js';
import { pollNowSignal } from '../../src/contract/index.js';
import { eventually } from '../support/eventually.js';
import { failureOf } from '../support/failure-of.js';
import { type FollowUpHandle, operatedCore, type Project, reaches, shownState } from './support/operated-core.js';

/** What happens right before the end of a follow-up is told, by its id. */
const beforeEnds = new Map<string, () => Promise<void>>();
const onEnd = async (workflowId: string) => beforeEnds.get(workflowId)?.();
const operated = operatedCore({ sendTimeoutMs: 6_000, leaseMs: 10_000, drainMs: 1_000, onEnd });
const { newProject } = operated;

/** Waits in the state that a test cancels. Each returns the follow-up. */
const waits: Record<string, (project: Project) => Promise<FollowUpHandle>> = {
  'in line for a slot': async (project) => {
    await project.openBudget({ limit: 0 });
    const followUp = await project.start();
    await project.waiting(1);
    await reaches(followUp, 'waiting-for-budget', 'slot');
    return followUp;
  },
  'in the line of a paused project': async (project) => {
    const [followUp] = await project.openBacklog(1);
    await reaches(followUp as FollowUpHandle, 'blocked', 'paused');
    return followUp as FollowUpHandle;
  },
  'for a job at work': async (project) => {
    await project.openBudget();
    project.addJob('job', { status: 'active', behaviour: { neverEnds: true } });
    const followUp = await project.start();
    await reaches(followUp, 'waiting-for-job', 'job-busy');
    return followUp;
  },
  'behind another follow-up of its job': async (project) => {
    project.addEndlessJob('job');
    await project.start();
    await project.deliveries(1);
    const followUp = await project.start('job', { whenActive: 'send' });
    await project.waiting(1);
    await reaches(followUp, 'waiting-for-job', 'job-busy');
    return followUp;
  },
  'for a stopped budget': async (project) => {
    await project.openBudget();
    await project.budget.terminate();
    const followUp = await project.start();
    await reaches(followUp, 'blocked', 'budget-stopped');
    return followUp;
  },
};

describe.concurrent('a follow-up that is cancelled', () => {
  test.each(Object.entries(waits))('while it waits %s ends as Canceled, unsent', async (_, wait) => {
    const project = newProject();
    const followUp = await wait(project);
    const before = project.delivered.length;
    await followUp.cancel();
    expect(await failureOf(followUp.result())).toMatchObject({ type: 'Canceled' });
    expect(await shownState(followUp)).toBe('cancelled');
    expect(project.delivered.length).toBe(before);
    // A query of a budget that was terminated answers as of its end.
    await project.waiting(0);
  });

  test('while its message is on its way lets it arrive, and says so', async () => {
    const project = newProject();
    project.addEndlessJob('job');
    const letGo = project.holdMessages('job', 'received');
    const followUp = await project.start();
    await reaches(followUp, 'sending');
    await followUp.cancel();
    letGo();
    expect(await failureOf(followUp.result())).toMatchObject({ type: 'Cancelled', delivered: 'yes' });
    expect(project.delivered).toEqual(['job']);
  });

  test('while it finds out what became of its message says that nobody knows', async () => {
    const project = newProject();
    project.addJob('job', { behaviour: { neverEnds: true } });
    // The job looks as before the message, so nothing tells that it arrived.
    const letGo = project.holdMessages('job', 'received');
    const followUp = await project.start();
    await reaches(followUp, 'reconciling');
    await followUp.cancel();
    expect(await failureOf(followUp.result())).toMatchObject({ type: 'Cancelled', delivered: 'unknown' });
    letGo();
  });

  test('while it watches its job says that the message was delivered', async () => {
    const project = newProject();
    project.addEndlessJob('job');
    const followUp = await project.start();
    await reaches(followUp, 'polling');
    await followUp.cancel();
    expect(await failureOf(followUp.result())).toMatchObject({ type: 'Cancelled', delivered: 'yes' });
    expect(project.delivered).toEqual(['job']);
  });
});

describe.concurrent('those who wait for the job of a follow-up', () => {
  const endings: Record<string, (followUp: FollowUpHandle) => Promise<unknown>> = {
    terminated: (followUp) => followUp.terminate(),
    deleted: ({ workflowId }) => deleteWorkflow(operated.core.client, workflowId),
  };
  test.each(Object.entries(endings))(
    'that is %s while it has the turn go on once its message can show',
    async (_, end) => {
      const project = newProject();
      project.addEndlessJob('job');
      const owner = await project.start();
      await reaches(owner, 'polling');
      const next = await project.start();
      await reaches(next, 'waiting-for-job', 'job-busy');
      await end(owner);
      project.endTurn('job');
      // The budget holds the turn for as long as the job may show the one before: 2 min, and the lease and the drain.
      await eventually('the next one is delivered', () => project.delivered.length === 2, 200_000);
      project.endTurn('job');
      expect(await next.result()).toMatchObject({ status: 'completed', delivery: 'sent' });
    },
  );
});

test.concurrent('pollNow after a cancel, while the end is being told, keeps no follow-up from its end', async () => {
  const project = newProject();
  project.addEndlessJob('job');
  const followUp = await project.start();
  await reaches(followUp, 'polling');
  beforeEnds.set(followUp.workflowId, async () => {
    beforeEnds.delete(followUp.workflowId);
    await followUp.signal(pollNowSignal);
  });
  await followUp.cancel();
  expect(await failureOf(followUp.result())).toMatchObject({ type: 'Cancelled', delivered: 'yes' });
});

test.concurrent('a grant that comes while a follow-up that gave up tells so is not used', async () => {
  const project = newProject();
  await project.openBudget({ limit: 0 });
  const followUp = await project.start('job', { budgetWaitTimeout: '3s' });
  await reaches(followUp, 'waiting-for-budget', 'slot');
  let times = 0;
  beforeEnds.set(followUp.workflowId, async () => {
    if ((times += 1) > 1) return;
    await project.setLimit({ limit: 1 });
    // The server refuses to close a workflow that has news.
    await eventually('the budget has granted the slot', async () => (await project.status()).unsettled === 1);
    await eventually('its signal has left', async () => {
      const { events } = await project.budget.fetchHistory();
      return events?.some(({ externalWorkflowExecutionSignaledEventAttributes: signaled }) => signaled);
    });
  });
  expect(await failureOf(followUp.result())).toMatchObject({ type: 'BudgetWaitTimeout', delivered: 'no' });
  expect(times).toBe(2);
  expect(project.delivered).toEqual([]);
  expect(await project.status()).toMatchObject({ used: 0, unsettled: 0 });
});
