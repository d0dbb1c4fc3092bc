import { describe, expect, test } from 'vitest';
import { deleteWorkflow, type ResetPoint, resetWorkflow } from '../support/buttons.js';
import { newState } from '../../src/budget/state.js';
import { eventually } from '../support/eventually.js';
import { type FollowUpHandle, operatedCore, type Project, reaches, shownState } from './support/operated-core.js';

const LIMIT = 2;
// Slots are not free again within a test, so whatever is sent beyond the limit is too much.
const operated = operatedCore({ budget: { limit: LIMIT }, leaseMs: 8_000, drainMs: 1_000 });
const { newProject } = operated;

/** A backlog of follow-ups, of which as many as the limit are sent and settled. */
async function openWorkingBacklog(project: Project, count: number): Promise<FollowUpHandle[]> {
  const followUps = await project.openBacklog(count);
  await project.resume();
  await project.deliveries(LIMIT);
  await eventually('all sends are settled', async () => (await project.status()).unsettled === 0);
  return followUps;
}

async function counted(project: Project, used: number): Promise<void> {
  await eventually('the budget has counted', async () => {
    const status = await project.status();
    if (!status.isCounting) expect(status.used).toBe(used);
    return !status.isCounting;
  });
}

/** Expects that the budget still knows that its limit is used up, and lets all go once the limit allows it. */
async function expectLimitKept(project: Project, followUps: FollowUpHandle[]): Promise<void> {
  await counted(project, LIMIT);
  expect(project.delivered.length).toBe(LIMIT);
  await project.setLimit({ limit: LIMIT + 1 });
  await project.deliveries(LIMIT + 1);
  await eventually('that slot is used', async () => (await project.status()).used === LIMIT + 1);
  expect(project.delivered.length).toBe(LIMIT + 1);
  await project.setLimit({ limit: followUps.length });
  await project.expectGoodEnds(followUps, { limit: followUps.length, windowMs: 3_600_000 });
}

async function reset(project: Project, point: ResetPoint): Promise<void> {
  await resetWorkflow(operated.core.client, project.budget.workflowId, point);
  await eventually('the new run counts', async () => (await project.status()).isCounting);
}

describe.concurrent('a budget with a backlog', () => {
  test('that is cancelled changes nothing, and says so', async () => {
    const project = newProject();
    const followUps = await openWorkingBacklog(project, 4);
    await project.budget.cancel();
    await project.budget.cancel();
    await eventually('it says so', async () => {
      const metadata = await project.budget.query<{ currentDetails: string }>('__temporal_workflow_metadata');
      return metadata.currentDetails.includes('cancel');
    });
    await expectLimitKept(project, followUps);
  });

  test('that is terminated blocks follow-ups, and counts what was sent before when it starts again', async () => {
    const project = newProject();
    const sent = await project.startMany(LIMIT, 'sent');
    await project.expectGoodEnds(sent);
    await project.budget.terminate();
    const blocked = await project.startMany(2, 'blocked');
    for (const followUp of blocked) {
      await reaches(followUp, 'blocked', 'budget-stopped');
      expect(await shownState(followUp)).toBe('blocked');
    }
    await project.openBudget();
    await Promise.all(blocked.map((followUp) => followUp.signal('pollNow')));
    await project.waiting(2);
    await expectLimitKept(project, [...sent, ...blocked]);
  });

  test('that is terminated blocks those in line who ask, and they go on when it starts again', async () => {
    const project = newProject();
    const followUps = await openWorkingBacklog(project, 4);
    await project.budget.terminate();
    const inLine = followUps.filter(({ jobId }) => !project.delivered.includes(jobId));
    for (const followUp of inLine) {
      await followUp.signal('pollNow');
      await reaches(followUp, 'blocked', 'budget-stopped');
    }
    await project.openBudget();
    for (const followUp of inLine) await followUp.signal('pollNow');
    await project.waiting(2);
    await expectLimitKept(project, followUps);
  });

  test('that is terminated and starts again counts nobody who was cancelled in line', async () => {
    const project = newProject();
    const followUps = await project.openBacklog(3);
    for (const followUp of followUps) await followUp.cancel();
    await Promise.all(followUps.map((followUp) => expect(followUp.result()).rejects.toThrow()));
    await project.budget.terminate();
    await project.openBudget();
    await counted(project, 0);
  });

  test('that is terminated and starts again wakes those in line', async () => {
    const project = newProject();
    const followUps = await openWorkingBacklog(project, 4);
    await project.budget.terminate();
    await project.openBudget();
    await project.waiting(2);
    await expectLimitKept(project, followUps);
  });

  test('that is deleted starts with the next ask, counts first, and takes those in line again', async () => {
    const project = newProject();
    const followUps = await openWorkingBacklog(project, 4);
    await deleteWorkflow(operated.core.client, project.budget.workflowId);
    await eventually('it is gone', () =>
      project.status().then(
        () => false,
        () => true,
      ),
    );
    const next = await project.start('next');
    expect(await reaches(next, 'blocked', 'counting')).toMatchObject({ waitReason: 'counting' });
    await expectLimitKept(project, [...followUps, next]);
  });

  test.each(['first', 'last'] as const)('that is reset to its %s task counts, and keeps its line', async (point) => {
    const project = newProject();
    const followUps = await openWorkingBacklog(project, 5);
    await reset(project, point);
    await expectLimitKept(project, followUps);
  });

  test('that was reset and is reset again counts again', async () => {
    const project = newProject();
    const followUps = await openWorkingBacklog(project, 5);
    await reset(project, 'first');
    await counted(project, LIMIT);
    await project.setLimit({ limit: LIMIT + 1 });
    await project.deliveries(LIMIT + 1);
    await eventually('all sends are settled', async () => (await project.status()).unsettled === 0);
    // Whatever the new run granted is undone, and the order to raise the limit too.
    await reset(project, (tasks) => tasks.at(-4));
    await counted(project, LIMIT + 1);
    expect(project.delivered.length).toBe(LIMIT + 1);
    await project.setLimit({ limit: 5 });
    await project.expectGoodEnds(followUps, { limit: 5, windowMs: 3_600_000 });
  });

  test('that is reset while a message is on its way neither forgets nor repeats it', async () => {
    const project = newProject();
    project.addEndlessJob('held');
    await project.openBudget();
    const letGo = project.holdMessages('held', 'received');
    const held = await project.start('held');
    await reaches(held, 'sending');
    await reset(project, 'first');
    letGo();
    await reaches(held, 'polling');
    project.endTurn('held');
    await counted(project, 1);
    const [next] = await project.startMany(1);
    await project.expectGoodEnds([held, next as FollowUpHandle]);
  });
});

test.concurrent('a budget that is started by hand with a state of its own does not take it', async () => {
  const project = newProject();
  const settings = { limit: 1_000, windowMs: 1_000, reserve: 0, marginMs: 0 };
  await project.openBudget({}, { ...newState(settings, 0), isCounting: false, arrivals: 77 });
  const { limit, windowMs, remembersSince } = await project.status();
  expect({ limit, windowMs }).toEqual({ limit: LIMIT, windowMs: 3_600_000 });
  expect(Date.parse(remembersSince)).toBeGreaterThan(Date.now() - 600_000);
});
