import { describe, expect, test } from 'vitest';
import { newState } from '../../src/budget/state.js';
import type { StartedFollowUp } from '../../src/client/index.js';
import { budgetTaskQueue, projectBudgetWorkflowId, setLimitUpdate, WorkflowType } from '../../src/contract/index.js';
import { deleteWorkflow, type ResetPoint, resetWorkflow, sendNonsense } from '../support/buttons.js';
import { eventually, readsAllSignals } from '../support/eventually.js';
import { type Project, reaches, useStack } from '../support/project.js';
import { schemaCheck } from '../support/schema-check.js';

const LIMIT = 2;
// A budget that counts waits for one lease.
const operated = useStack({
  env: {
    FOLLOW_UP_BUDGET_LIMIT: `${LIMIT}`,
    FOLLOW_UP_BUDGET_MAX_LIMIT: '100',
    FOLLOW_UP_MARGIN: '200ms',
    FOLLOW_UP_SEND_TIMEOUT: '5s',
    FOLLOW_UP_DRAIN: '1s',
  },
  leaseMs: 8_000,
});
const { newProject } = operated;
const WINDOW = { windowMs: 3_600_000 };

const saysSo = (project: Project) =>
  eventually('it says so', async () => {
    const { currentDetails } = await project
      .workflow()
      .query<{ currentDetails: string }>('__temporal_workflow_metadata');
    const { cancelRefused } = await project.status();
    return cancelRefused === true && /cancel: refused[^]*follow-up budget pause/.test(currentDetails);
  });

/** Starts a budget as anyone can. */
const startBudget = ({ id: projectId }: Project, more = {}, ...carried: unknown[]) =>
  operated.stack.client.workflow.start(WorkflowType.projectBudget, {
    workflowId: projectBudgetWorkflowId(projectId),
    taskQueue: budgetTaskQueue(operated.stack.taskQueue),
    args: [{ projectId, settings: { limit: LIMIT, ...WINDOW, reserve: 0, marginMs: 200 }, ...more }, ...carried],
  });

/** A backlog of follow-ups, of which as many as the limit are sent and settled. */
async function openWorkingBacklog(project: Project, count: number): Promise<StartedFollowUp[]> {
  const followUps = await project.openBacklog(count, LIMIT);
  await project.budget.resume();
  await project.deliveries(LIMIT);
  await eventually('all sends are settled', async () => (await project.status()).underWay === 0);
  return followUps;
}

/** A follow-up whose message the service has received and answers only after `release()`. */
async function startHeld(project: Project): Promise<{ held: StartedFollowUp; release: () => void }> {
  project.addEndlessJob('held');
  const release = project.holdMessages('held', 'received');
  const held = await project.start('held');
  await reaches(held, 'sending');
  return { held, release };
}

async function counted(project: Project, used: number): Promise<void> {
  await eventually('the budget has counted', async () => {
    const status = await project.status();
    if (!status.isCounting) expect(status.used).toBe(used);
    return !status.isCounting;
  });
}

/** Expects that the budget still knows that its limit is used up, and lets all go once the limit allows it. */
async function keepsLimit(project: Project, followUps: readonly StartedFollowUp[]): Promise<void> {
  await counted(project, LIMIT);
  expect(project.delivered).toHaveLength(LIMIT);
  await project.budget.setLimit({ limit: LIMIT + 1 });
  await project.deliveries(LIMIT + 1);
  await eventually('that slot is used', async () => (await project.status()).used === LIMIT + 1);
  expect(project.delivered).toHaveLength(LIMIT + 1);
  await project.budget.setLimit({ limit: followUps.length });
  await project.endWell(followUps, { limit: followUps.length, ...WINDOW });
}

async function reset(project: Project, point: ResetPoint): Promise<void> {
  await resetWorkflow(operated.stack.client, project.budget.workflowId, point);
  await eventually('the new run counts', async () => (await project.status()).isCounting);
}

describe.concurrent('a budget that is asked to cancel', () => {
  test('continues with an empty line and no timer, and says that it refuses to cancel', async () => {
    const project = newProject();
    const first = await project.start('first');
    await project.endWell([first]);
    await project.workflow().cancel();
    await project.workflow().cancel();
    await saysSo(project);
    await project.endWell([first, await project.start('second')]);
    expect(await project.budget.state()).toBe('running');
  });

  test('continues if the cancel comes before its first task', async () => {
    const project = newProject();
    await (await startBudget(project)).cancel();
    await project.endWell([await project.start()]);
    expect(await project.budget.state()).toBe('running');
  });

  test('drops no follow-up in line, even if grants are on their way', async () => {
    const project = newProject();
    const followUps = await project.openBacklog(LIMIT + 2, LIMIT);
    // Both arrive in one task, so the grants that it sends are pending when the cancel comes.
    await Promise.all([project.budget.resume(), project.workflow().cancel()]);
    await project.workflow().cancel();
    await saysSo(project);
    await project.deliveries(LIMIT);
    await keepsLimit(project, followUps);
  });
});

test.concurrent('a budget skips signals and updates that make no sense', async () => {
  const project = newProject();
  const followUps = await project.openBacklog(LIMIT + 1, LIMIT);
  const signals = ['report', 'budgetReply', 'wake'];
  await sendNonsense(operated.stack.client, project.budget.workflowId, signals, ['ask', 'setLimit']);
  await readsAllSignals(project.workflow());
  expect(await project.status()).toMatchObject({ used: 0, underWay: 0, waitingTotal: LIMIT + 1, limit: LIMIT });
  await project.budget.resume();
  await project.deliveries(LIMIT);
  await keepsLimit(project, followUps);
});

test.concurrent(
  'a budget refuses an invalid input, and ignores a state with which somebody starts it by hand',
  async () => {
    const [bad, forged] = [newProject(), newProject()];
    const workflow = await startBudget(bad, { projectId: 'other' });
    await expect(workflow.result()).rejects.toMatchObject({ cause: { type: 'InvalidInput' } });
    const own = newState({ limit: 1_000, windowMs: 1_000, reserve: 0, marginMs: 0 }, 0);
    await startBudget(forged, {}, { ...own, isCounting: false, arrivals: 77 });
    await counted(forged, 0);
    const { limit, windowMs, remembersSince } = await forged.status();
    expect({ limit, windowMs }).toEqual({ limit: LIMIT, ...WINDOW });
    expect(Date.parse(remembersSince)).toBeGreaterThan(Date.now() - 600_000);
  },
);

test.concurrent('a budget ignores a state that a retry policy passes on from whoever started it by hand', async () => {
  const project = newProject();
  const { client, taskQueue } = operated.stack;
  const forged = newState({ limit: 1_000, windowMs: 1_000, reserve: 0, marginMs: 0 }, 0);
  await client.workflow.start(WorkflowType.projectBudget, {
    ...{ workflowId: projectBudgetWorkflowId(project.id), taskQueue: budgetTaskQueue(taskQueue) },
    ...{ workflowRunTimeout: '3s', retry: { initialInterval: '1s', maximumAttempts: 2 } },
    args: [{ projectId: project.id, settings: { limit: LIMIT, ...WINDOW, reserve: 0, marginMs: 200 } }, forged],
  });
  const first = await project.workflow().describe();
  await eventually('it runs again', async () => (await project.workflow().describe()).runId !== first.runId);
  expect(await project.status()).toMatchObject({ limit: LIMIT, ...WINDOW });
});

test.concurrent('a command to change the limit is refused with the field, the value and the rule', async () => {
  const project = newProject();
  await project.budget.setLimit({ limit: 5 });
  // The worker's ceiling comes with the first ask.
  await project.endWell([await project.start()]);
  const bad: [input: object | null | number, said: RegExp][] = [
    [{ limit: -1 }, /limit.*must be from 0.*-1/],
    [{ limit: 1.5 }, /limit.*whole number.*1.5/],
    [{ limit: '5' }, /limit.*whole number.*"5"/],
    [{ window: '1ms' }, /window.*1s.*1ms/],
    [{ reserve: 5 }, /reserve.*must be below limit.*5/],
    [{ limits: 5 }, /limits/],
    [null, /at least one/],
    [7, /7/],
    [{ limit: 101 }, /limit.*at most 100, FOLLOW_UP_BUDGET_MAX_LIMIT.*101/],
  ];
  for (const [input, said] of bad) {
    const update = project.workflow().executeUpdate(setLimitUpdate, { args: [input as object] });
    const cause = { type: 'InvalidInput', message: expect.stringMatching(said) as string };
    await expect(update).rejects.toMatchObject({ cause });
  }
  expect(await project.status()).toMatchObject({ limit: 5, ...WINDOW, reserve: 0 });
});

test.concurrent(
  'a pause holds every follow-up and shows its note; after it, all wait in line and are sent within the limit',
  async () => {
    const project = newProject();
    await project.budget.setLimit({ limit: 1 });
    await project.budget.pause({ note: 'a release is under way' });
    const first = await project.start('first');
    expect((await reaches(first, 'blocked', 'paused')).pause).toMatchObject({ note: 'a release is under way' });
    // The library shows the pause before the follow-up receives it.
    await expect.poll(async () => (await first.describe()).state).toBe('blocked');
    expect(project.ledger).toEqual([]);
    await project.budget.resume();
    await project.deliveries(1);
    const second = await project.start('second');
    await eventually('the second is the next', async () => (await second.progress()).position === 1);
    const third = await project.start('third');
    await eventually('the third waits behind it', async () => (await third.progress()).position === 2);
    const { used, limit, waiting, nextFreeSlotAt } = await project.status();
    expect({ used, limit, line: waiting.map(({ position }) => position) }).toEqual({ used: 1, limit: 1, line: [1, 2] });
    // The first slot is free after an hour, and nobody can tell about the second one.
    expect(nextFreeSlotAt).toBeDefined();
    expect((await third.progress()).expectedSendAt).toBeUndefined();
    await project.budget.setLimit({ window: '1s' });
    // A send that starts too late for its grant asks again, so the order of arrival is no promise.
    await project.endWell([first, second, third], { limit: 1, windowMs: 1_000 });
  },
);

describe.concurrent('a budget with a backlog', () => {
  test('is not replaced by an empty budget if it is terminated: its follow-ups show that and wait until it is restored', async () => {
    const project = newProject();
    const inLine = await openWorkingBacklog(project, LIMIT + 2);
    await project.workflow().terminate();
    const blocked = await project.startMany(2, 'blocked');
    for (const followUp of blocked) {
      await reaches(followUp, 'blocked', 'budget-stopped');
      // The library shows a stopped budget before the follow-up has asked it.
      const lastError = async () => (await followUp.progress()).lastError?.message;
      await expect.poll(lastError).toContain(`follow-up budget restore ${project.id}`);
      expect(await followUp.describe()).toMatchObject({ state: 'blocked' });
      const own: unknown = await project.workflow(followUp).query('progress');
      expect(schemaCheck('follow-up-progress')(own)).toEqual([]);
    }
    await project.budget.restore();
    for (const followUp of blocked) await followUp.pollNow();
    await project.waiting(4);
    await keepsLimit(project, [...inLine, ...blocked]);
  });

  test.each(['first', 'last'] as const)(
    'counts its sends and keeps its line if it is reset to its %s task',
    async (point) => {
      const project = newProject();
      const followUps = await openWorkingBacklog(project, 5);
      await reset(project, point);
      await keepsLimit(project, followUps);
    },
  );

  test('neither forgets nor repeats a message that is on its way when the budget is reset', async () => {
    const project = newProject();
    const { held, release } = await startHeld(project);
    await reset(project, 'first');
    release();
    await reaches(held, 'polling');
    project.endTurn('held');
    await counted(project, 1);
    await project.endWell([held, await project.start('next')]);
  });

  test('counts each message once after it is restored, also of follow-ups that were reset', async () => {
    const project = newProject();
    await project.budget.setLimit({ limit: 8 });
    const polled = ['a', 'b', 'c'];
    for (const jobId of polled) project.addEndlessJob(jobId);
    const followUps = await Promise.all([...polled, 'd', 'e'].map((jobId) => project.start(jobId)));
    const areAsBefore = () =>
      Promise.all(followUps.map((each, index) => (polled[index] ? reaches(each, 'polling') : each.result())));
    await areAsBefore();
    for (const [index, point] of (['first', 'last', undefined, 'first', 'last'] as const).entries()) {
      if (point) await resetWorkflow(operated.stack.client, followUps[index]?.workflowId ?? '', point);
    }
    await areAsBefore();
    const isCountedOnce = async () => {
      await project.workflow().terminate();
      await project.budget.restore();
      await counted(project, followUps.length);
      const sends = (await project.budget.audit()).map(({ workflowId }) => workflowId);
      expect(sends.sort()).toEqual(followUps.map(({ workflowId }) => workflowId).sort());
    };
    await isCountedOnce();
    // The new run takes the send over from a budget that knows it only from Temporal's list.
    await resetWorkflow(operated.stack.client, followUps[2]?.workflowId ?? '', 'first');
    const message = expect.stringContaining('an earlier run may have sent it') as string;
    await expect(followUps[2]?.result()).rejects.toMatchObject({ type: 'DeliveryUnknown', message });
    await isCountedOnce();
  });

  test('is started again by the outcome of a send during which it was deleted', async () => {
    const project = newProject();
    const { held, release } = await startHeld(project);
    await deleteWorkflow(operated.stack.client, project.budget.workflowId);
    await eventually('it is gone', async () => (await project.budget.state()) === 'none');
    release();
    await reaches(held, 'polling');
    await counted(project, 1);
    project.endTurn('held');
    await project.endWell([held]);
  });

  test('counts its sends again if it is reset a second time', { tags: 'long' }, async () => {
    const project = newProject();
    const followUps = await openWorkingBacklog(project, 5);
    await reset(project, 'first');
    await counted(project, LIMIT);
    await project.budget.setLimit({ limit: LIMIT + 1 });
    await project.deliveries(LIMIT + 1);
    await eventually('all sends are settled', async () => (await project.status()).underWay === 0);
    // Whatever the new run granted is undone, and the order to raise the limit too.
    await reset(project, (tasks) => tasks.at(-4));
    await counted(project, LIMIT + 1);
    expect(project.delivered).toHaveLength(LIMIT + 1);
    await project.budget.setLimit({ limit: 5 });
    await project.endWell(followUps, { limit: 5, ...WINDOW });
  });

  test(
    'starts again with the next ask if it is deleted, counts its sends, and serves its line again',
    { tags: 'long' },
    async () => {
      const project = newProject();
      const followUps = await openWorkingBacklog(project, 4);
      await deleteWorkflow(operated.stack.client, project.budget.workflowId);
      await eventually('it is gone', async () => (await project.budget.state()) === 'none');
      const next = await project.start('next');
      await reaches(next, 'blocked', 'counting');
      await keepsLimit(project, [...followUps, next]);
    },
  );
});
