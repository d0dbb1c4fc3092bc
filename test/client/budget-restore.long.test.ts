import { randomUUID } from 'node:crypto';
import { Client } from '@temporalio/client';
import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest';
import { resetWorkflow } from '../../chaos/buttons.js';
import { readLedger } from '../../src/client/budget-ledger.js';
import {
  BudgetNotFoundError,
  BudgetRunningError,
  BudgetStateLostError,
  BudgetStoppedError,
  InvalidInputError,
  type BudgetHandle,
  type StartedFollowUp,
} from '../../src/client/index.js';
import { projectBudgetWorkflowId } from '../../src/contract/index.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

const LIMIT = 5;
const WINDOW_MS = 10_000;
let stack: Stack;

beforeAll(async () => {
  stack = await startStack({
    address: inject('temporalAddress'),
    env: { FOLLOW_UP_BUDGET_LIMIT: `${LIMIT}`, FOLLOW_UP_BUDGET_WINDOW: '10s', FOLLOW_UP_MARGIN: '200ms' },
    simulator: { autoCreate: true, limiter: { kind: 'sliding', limit: LIMIT, windowMs: WINDOW_MS } },
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
    const { state, waitReason } = await followUp.progress();
    return state === 'blocked' && waitReason === 'gate-stopped';
  });
/** Waits until every grant is settled. A settle that finds no budget would hold its slot for minutes. */
const isSettled = (budget: BudgetHandle, used: number) =>
  eventually(`${used} sends are settled`, async () => {
    const status = await budget.status();
    return status?.used === used && status.unsettled === 0;
  });
/** How often a follow-up waited the whole minute before it asked a stopped budget again. */
async function fullMinutesWaited({ workflowId }: StartedFollowUp): Promise<number> {
  const { events = [] } = await stack.client.workflow.getHandle(workflowId).fetchHistory();
  const minutes = (events ?? []).filter(
    ({ timerStartedEventAttributes: timer }) => Number(timer?.startToFireTimeout?.seconds ?? 0) >= 60,
  );
  expect(minutes).not.toHaveLength(0);
  const fired = (events ?? []).flatMap(({ timerFiredEventAttributes: timer }) => timer?.timerId ?? []);
  return minutes.filter(({ timerStartedEventAttributes: timer }) => fired.includes(timer?.timerId ?? '')).length;
}

test.concurrent(
  'a terminated budget is restored with its queue and its window: follow-ups continue by themselves, never over the limit',
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
    await isBlocked(meanwhile);
    expect(ledgerOf(projectId)).toHaveLength(LIMIT);

    const restored = await budget.restore();
    expect(restored).toMatchObject({ projectId, from: 'lastState', settings: { limit: LIMIT, windowMs: WINDOW_MS } });
    expect(restored.stopped.status).toBe('terminated');
    expect(restored.runId).not.toBe(restored.stopped.runId);
    const after = await start(projectId, 'c-1', 'c-2', 'c-3', 'c-4', 'c-5');
    const results = await Promise.all([...before, ...after].map((followUp) => followUp.result()));
    expect(results.every(({ status, delivery }) => status === 'completed' && delivery === 'sent')).toBe(true);
    expect(await meanwhile.result()).toMatchObject({ status: 'completed' });
    expect(await fullMinutesWaited(meanwhile)).toBe(0);

    const ledger = ledgerOf(projectId);
    expect(ledger.map(({ status }) => status)).toEqual(Array<number>(14).fill(200));
    expect(new Set(ledger.map(({ jobId }) => jobId)).size).toBe(14);
    expect(stack.simulator.maxInAnyWindow(projectId, WINDOW_MS)).toBe(LIMIT);
    expect((await budget.audit()).map(({ jobId }) => jobId).sort()).toEqual(ledger.map(({ jobId }) => jobId).sort());
  },
);

test.concurrent('follow-ups that waited when the budget was stopped are woken as soon as it runs again', async () => {
  const projectId = newProject();
  const budget = stack.followUps.budget(projectId);
  await budget.pause();
  const waiting = await start(projectId, 'a-1', 'a-2', 'a-3');
  await eventually('three wait', async () => (await budget.status())?.waitingTotal === 3);
  await budget.setLimit({ limit: 0 });
  await budget.resume();
  await terminate(budget);
  await stack.followUps.budget(projectId).restore();
  // The limit that an operator set is part of the state.
  expect(await budget.status()).toMatchObject({ limit: 0, waitingTotal: 3 });
  await terminate(budget);
  // Each asks while the budget is stopped, and is told to come back in a minute.
  for (const { workflowId } of waiting) await stack.client.workflow.getHandle(workflowId).signal('wake');
  for (const followUp of waiting) await isBlocked(followUp);
  await budget.restore();
  await budget.setLimit({ limit: 3 });
  await Promise.all(waiting.map((followUp) => followUp.result()));
  expect(ledgerOf(projectId)).toHaveLength(3);
  expect(await Promise.all(waiting.map(fullMinutesWaited))).toEqual([0, 0, 0]);
});

test.concurrent('two restores at the same time start one budget', async () => {
  const projectId = newProject();
  const budget = stack.followUps.budget(projectId);
  await budget.setLimit({ limit: 7 });
  await terminate(budget);
  const outcomes = await Promise.allSettled([budget.restore(), budget.restore(), budget.restore()]);
  const failed = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : []));
  expect(failed).toHaveLength(2);
  for (const error of failed) expect(error).toBeInstanceOf(BudgetRunningError);
  expect(await budget.status()).toMatchObject({ limit: 7 });
});

test.concurrent('a budget that runs or never existed cannot be restored', async () => {
  const budget = stack.followUps.budget(newProject());
  await expect(budget.restore()).rejects.toThrow(BudgetNotFoundError);
  await expect(budget.restore({ assumeFull: true })).rejects.toThrow(BudgetNotFoundError);
  expect(await budget.state()).toBe('none');
  await budget.resume();
  await expect(budget.restore()).rejects.toThrow(BudgetRunningError);
  await expect(budget.restore({ assumeFull: true, inFlight: 'soon' })).rejects.toThrow(InvalidInputError);
});

test.concurrent('a stopped budget accepts no orders, and says how to restore it', async () => {
  const budget = stack.followUps.budget(newProject());
  await budget.resume();
  await terminate(budget);
  for (const order of [() => budget.setLimit({ limit: 9 }), () => budget.pause(), () => budget.resume()]) {
    const error = await order().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(BudgetStoppedError);
    expect(error).toMatchObject({ message: expect.stringContaining(`follow-up budget restore ${budget.projectId}`) });
  }
  expect(await budget.state()).toBe('stopped');
});

test.concurrent('a budget that was stopped before its first task is restored with its settings', async () => {
  const projectId = newProject();
  const workflowId = projectBudgetWorkflowId(projectId);
  const settings = { limit: 3, windowMs: 60_000, reserve: 1, marginMs: 0 };
  const handle = await stack.client.workflow.start('projectBudget', {
    workflowId,
    taskQueue: `nobody-${randomUUID()}`,
    args: [{ projectId, settings }],
  });
  await handle.terminate();
  await stack.followUps.budget(projectId).restore();
  expect(await stack.followUps.budget(projectId).status()).toMatchObject({ limit: 3, windowMs: 60_000, reserve: 1 });
});

test.concurrent('a failed budget without a state says so, and only assumeFull restores it', async () => {
  const projectId = newProject();
  const handle = await stack.client.workflow.start('projectBudget', {
    workflowId: projectBudgetWorkflowId(projectId),
    taskQueue: `${stack.taskQueue}-budget`,
    args: [{ projectId, settings: 'none' }],
  });
  await expect(handle.result()).rejects.toMatchObject({ cause: { type: 'InvalidInput' } });
  const budget = stack.followUps.budget(projectId);
  const error = await budget.restore().catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(BudgetStateLostError);
  expect(error).toMatchObject({ message: expect.stringContaining('--assume-full') });
  expect(await budget.restore({ assumeFull: true })).toMatchObject({
    from: 'assumeFull',
    stopped: { status: 'failed' },
  });
  expect(await budget.status()).toMatchObject({ limit: 100, used: 100 });
});

test.concurrent('an invalid state ends the run with a typed failure and does not wedge it', async () => {
  for (const restored of [null, 'x', {}, { version: 2 }]) {
    const projectId = newProject();
    const settings = { limit: 3, windowMs: 60_000, reserve: 0, marginMs: 0 };
    const handle = await stack.client.workflow.start('projectBudget', {
      workflowId: projectBudgetWorkflowId(projectId),
      taskQueue: `${stack.taskQueue}-budget`,
      args: [{ projectId, settings, restored }],
    });
    await expect(handle.result()).rejects.toMatchObject({
      cause: { type: 'InvalidInput', message: expect.stringContaining('restored') },
    });
  }
});

test.concurrent(
  'assumeFull sends nothing for one window after the last send could have arrived, then continues',
  async () => {
    const projectId = newProject();
    const budget = stack.followUps.budget(projectId);
    await stack.followUps.run({ projectId, jobId: 'a-1', prompt: 'x', ...FAST });
    await budget.setLimit({ limit: 2 });
    await terminate(budget);
    const restored = await budget.restore({ assumeFull: true, inFlight: '3s' });
    const fullUntilMs = Date.parse(restored.fullUntil ?? '');
    expect(fullUntilMs - Date.parse(restored.stopped.at)).toBeGreaterThanOrEqual(WINDOW_MS + 3_000);
    // The last limit is known, because the state could still be read.
    expect(await budget.status()).toMatchObject({ limit: 2, used: 2, lastSends: [] });
    const followUps = await start(projectId, 'b-1', 'b-2');
    await Promise.all(followUps.map((followUp) => followUp.result()));
    const [, ...later] = ledgerOf(projectId);
    expect(later).toHaveLength(2);
    for (const { receivedAtMs } of later) expect(receivedAtMs).toBeGreaterThanOrEqual(fullUntilMs - 250);
  },
);

test.concurrent('a follow-up that began before assumeFull is not sent, and fails with DeliveryUnknown', async () => {
  const projectId = newProject();
  const budget = stack.followUps.budget(projectId);
  await budget.pause();
  const [waiting] = await start(projectId, 'a-1');
  if (!waiting) throw new Error('not started');
  await eventually('it waits', async () => (await budget.status())?.waitingTotal === 1);
  await terminate(budget);
  await budget.restore({ assumeFull: true, inFlight: '0s' });
  await stack.client.workflow.getHandle(waiting.workflowId).signal('wake');
  await expect(waiting.result()).rejects.toMatchObject({ type: 'DeliveryUnknown', delivered: 'unknown' });
  expect(ledgerOf(projectId)).toHaveLength(0);
});

test.concurrent('the sends of a run that a reset replaced before Temporal listed it are not forgotten', async () => {
  const projectId = newProject();
  const workflowId = projectBudgetWorkflowId(projectId);
  const handle = stack.client.workflow.getHandle(workflowId);
  const reset = async () => {
    await resetWorkflow(stack.client, workflowId, 'first');
    await eventually('the budget has ended itself', async () => (await handle.describe()).status.name === 'FAILED');
  };
  const send = (jobId: string) => stack.followUps.run({ projectId, jobId, prompt: 'Add tests.', ...FAST });
  await send('a-1');
  const { runId: listed } = await handle.describe();
  await reset();
  await stack.followUps.budget(projectId).restore();
  await send('a-2');
  await reset();
  const { runId } = await handle.describe();

  const late = new Client({ connection: stack.client.connection, namespace: stack.namespace });
  const { list } = late.workflow;
  vi.spyOn(late.workflow, 'list').mockImplementationOnce(() =>
    list.call(late.workflow, { query: `RunId = '${listed}'` }),
  );
  const { grants } = await readLedger(late, projectId, runId);
  expect(grants.map(({ jobId }) => jobId)).toEqual(['a-1', 'a-2']);
});
