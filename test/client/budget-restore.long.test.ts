import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { type BudgetHandle, FollowUpClient, type StartedFollowUp } from '../../src/client/index.js';
import { projectBudgetWorkflowId } from '../../src/contract/index.js';
import { eventually } from '../support/eventually.js';
import { FAST, type Stack, startStack } from '../support/stack.js';

const LIMIT = 5;
const WINDOW_MS = 10_000;
let stack: Stack;

beforeAll(async () => {
  stack = await startStack({
    address: inject('temporalAddress'),
    env: {
      FOLLOW_UP_BUDGET_LIMIT: `${LIMIT}`,
      FOLLOW_UP_BUDGET_WINDOW: '10s',
      FOLLOW_UP_MARGIN: '200ms',
      FOLLOW_UP_SEND_TIMEOUT: '3s',
      FOLLOW_UP_DRAIN: '1s',
    },
    simulator: { autoCreate: true, limiter: { limit: LIMIT, windowMs: WINDOW_MS } },
  });
});
afterAll(() => stack.stop());

const newProject = () => `restore-${randomUUID().slice(0, 8)}`;
const start = (projectId: string, ...jobIds: string[]) =>
  Promise.all(jobIds.map((jobId) => stack.followUps.start({ projectId, jobId, prompt: 'Add tests.', ...FAST })));
const ledgerOf = (projectId: string) => stack.simulator.ledger.filter((entry) => entry.projectId === projectId);
const terminate = ({ workflowId }: BudgetHandle) => stack.client.workflow.getHandle(workflowId).terminate('by hand');
const isBlocked = (followUp: StartedFollowUp) =>
  eventually(`${followUp.workflowId} is blocked`, async () => {
    const { waitReason, nextTryAt, lastError } = await followUp.progress();
    return waitReason === 'budget-stopped' && nextTryAt !== undefined && lastError;
  });
const isSettled = (budget: BudgetHandle, used: number) =>
  eventually(`${used} sends are settled`, async () => {
    const status = await budget.status();
    return status?.used === used && status.underWay === 0;
  });
test.concurrent('a budget moves to the task queue of whoever restores it', async () => {
  const projectId = newProject();
  const budget = stack.followUps.budget(projectId);
  await budget.pause();
  await terminate(budget);
  await new FollowUpClient({ client: stack.client, taskQueue: 'moved' }).budget(projectId).restore();
  const { taskQueue } = await stack.client.workflow.getHandle(budget.workflowId).describe();
  await terminate(budget);
  expect(taskQueue).toBe('moved-budget');
});

test.concurrent(
  'a terminated budget is restored: follow-ups continue by themselves, never over the limit, and none is sent twice',
  async () => {
    const projectId = newProject();
    const budget = stack.followUps.budget(projectId);
    // Five fill the window, and three wait for slots.
    const before = await start(projectId, 'a-1', 'a-2', 'a-3', 'a-4', 'a-5', 'a-6', 'a-7', 'a-8');
    await isSettled(budget, LIMIT);
    await eventually('three wait', async () => (await budget.status())?.waitingTotal === 3);
    await terminate(budget);
    expect(await budget.state()).toBe('stopped');
    const [meanwhile] = await start(projectId, 'b-1');
    if (!meanwhile) throw new Error('not started');
    const lastError = await isBlocked(meanwhile);
    expect(lastError).toMatchObject({ message: expect.stringContaining(`follow-up budget restore ${projectId}`) });
    expect(ledgerOf(projectId)).toHaveLength(LIMIT);

    const restored = await budget.restore();
    expect(restored).toMatchObject({ projectId, settings: { limit: LIMIT, windowMs: WINDOW_MS } });
    expect(restored.stopped.status).toBe('terminated');
    expect(restored.runId).not.toBe(restored.stopped.runId);
    const after = await start(projectId, 'c-1', 'c-2', 'c-3', 'c-4', 'c-5');
    const results = await Promise.all([...before, meanwhile, ...after].map((followUp) => followUp.result()));
    expect(results.every(({ status, delivery }) => status === 'completed' && delivery === 'sent')).toBe(true);

    const ledger = ledgerOf(projectId);
    expect(ledger.map(({ status }) => status)).toEqual(Array<number>(14).fill(200));
    expect(new Set(ledger.map(({ jobId }) => jobId)).size).toBe(14);
    expect(stack.simulator.maxInAnyWindow(projectId, WINDOW_MS)).toBeLessThanOrEqual(LIMIT);
  },
);

test.concurrent('two restores at the same time start one budget', async () => {
  const budget = stack.followUps.budget(newProject());
  await budget.setLimit({ limit: 7 });
  await terminate(budget);
  const outcomes = await Promise.allSettled([budget.restore(), budget.restore(), budget.restore()]);
  const failed = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : []));
  expect(failed).toHaveLength(2);
  for (const error of failed) expect(error).toMatchObject({ type: 'BudgetRunning' });
  expect(await budget.status()).toMatchObject({ limit: 7 });
});

const settings = { limit: 3, windowMs: 60_000, reserve: 1, marginMs: 0 };
test.concurrent.each([
  ['was stopped before its first task', 'nobody', settings, { settings, stopped: { status: 'terminated' } }],
  ['failed because of its input', '', 'none', { settings: { limit: 100 }, stopped: { status: 'failed' } }],
])(
  'a budget that %s is restored with its own settings, or else with those of the client',
  async (_what, queue, given, restored) => {
    const projectId = newProject();
    const handle = await stack.client.workflow.start('projectBudget', {
      workflowId: projectBudgetWorkflowId(projectId),
      taskQueue: queue || `${stack.taskQueue}-budget`,
      args: [{ projectId, settings: given }],
    });
    if (queue) await handle.terminate();
    await expect(handle.result()).rejects.toThrow();
    const budget = stack.followUps.budget(projectId);
    expect(await budget.restore()).toMatchObject(restored);
    expect(await budget.status()).toMatchObject({ limit: restored.settings.limit, used: 0 });
  },
);

test.concurrent('a budget that is restored with assumeFull sends nothing for one window, then continues', async () => {
  const projectId = newProject();
  const budget = stack.followUps.budget(projectId);
  await budget.setLimit({ limit: 2, window: WINDOW_MS });
  await terminate(budget);
  const atMs = Date.now();
  await budget.restore({ assumeFull: true });
  await eventually('every slot is used', async () => (await budget.status())?.used === 2);
  const followUps = await start(projectId, 'b-1', 'b-2');
  await Promise.all(followUps.map((followUp) => followUp.result()));
  const instants = ledgerOf(projectId).map(({ receivedAtMs }) => receivedAtMs);
  expect(instants).toHaveLength(2);
  for (const instant of instants) expect(instant).toBeGreaterThanOrEqual(atMs + WINDOW_MS);
});
