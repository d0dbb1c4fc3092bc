import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { budgetStatusQuery, budgetTaskQueue, projectBudgetWorkflowId } from '../../src/contract/index.js';
import { type AcquireRequest, acquireUpdate, carriedStateQuery } from '../../src/contract/protocol.js';
import { BudgetMetrics } from '../../src/worker/budget-metrics.js';
import { connectBudgetClient, makeAcquireRequest } from '../support/budget-client.js';
import { eventually } from '../support/eventually.js';
import { builtBundle } from '../support/workflow-bundles.js';
import { installQuietRuntime } from '../support/workflow-rig.js';

const address = inject('temporalAddress');
const HOUR_MS = 3_600_000;
const taskQueue = `taken-over-${randomUUID()}`;
let connection: Connection;
let native: NativeConnection;
let asker: Awaited<ReturnType<typeof connectBudgetClient>>;
beforeAll(async () => {
  await installQuietRuntime();
  connection = await Connection.connect({ address });
  native = await NativeConnection.connect({ address });
  asker = await connectBudgetClient({ address, taskQueue, limit: 100 });
});
afterAll(async () => {
  await asker.close();
  await native.close();
  await connection.close();
});

/** Runs budgets while `use` runs. */
async function withWorker<T>(use: () => Promise<T>): Promise<T> {
  const worker = await Worker.create({
    connection: native,
    taskQueue: budgetTaskQueue(taskQueue),
    workflowBundle: builtBundle,
    sinks: new BudgetMetrics().sinks,
  });
  return worker.runUntil(use());
}

// temporalio/sdk-rust#1146: after two tasks that leave no event, a worker that replays takes the second as a part of
// the third until it sees the third's events.
test('a budget that one worker after another takes over knows when each send ended', async () => {
  const { budget } = asker;
  const projectId = `taken-over-${randomUUID()}`;
  const handle = new Client({ connection }).workflow.getHandle(projectBudgetWorkflowId(projectId));
  const ask = (jobId: string) => makeAcquireRequest({ workflowId: `follow-up/${projectId}/${jobId}/key`, jobId });
  const settle = async (request: AcquireRequest, unsettled: number) => {
    await budget.tell(projectId, { kind: 'settle', ...request, outcome: 'sent' }, { isUrgent: true });
    await eventually('the budget knows', async () => (await handle.query(budgetStatusQuery)).unsettled === unsettled);
  };
  await withWorker(async () => {
    const requests = [ask('one'), ask('two'), ask('three')];
    for (const request of requests) await budget.acquire(projectId, request);
    for (const [index, request] of requests.entries()) await settle(request, 2 - index);
  });
  const asked = await withWorker(async () => {
    const { answer } = await budget.acquire(projectId, ask('four'));
    expect(answer.kind).toBe('granted');
    return handle.query(carriedStateQuery);
  });
  const later = await withWorker(() => handle.query(carriedStateQuery));
  await handle.terminate();
  expect(later).toEqual(asked);
});

test('a budget that is taken over after an end that left no event continues unchanged', async () => {
  const { budget } = asker;
  const projectId = `ended-${randomUUID()}`;
  const handle = new Client({ connection }).workflow.getHandle(projectBudgetWorkflowId(projectId));
  const ask = (jobId: string) => makeAcquireRequest({ workflowId: `follow-up/${projectId}/${jobId}/key`, jobId });
  const inAnHourMs = Date.now() + HOUR_MS;
  const status = () => handle.query(budgetStatusQuery, inAnHourMs);
  const one = ask('one');
  await withWorker(async () => {
    await budget.acquire(projectId, one);
    await budget.tell(projectId, { kind: 'settle', ...one, outcome: 'sent' }, { isUrgent: true });
    await eventually('the settle is heard', async () => (await handle.query(budgetStatusQuery)).unsettled === 0);
    await budget.tell(projectId, { kind: 'finish', ...one, outcome: 'sent' }, { isUrgent: false });
    await eventually('the end is heard', async () => !(await handle.describe()).raw.pendingWorkflowTask);
  });
  const asked = await withWorker(async () => {
    await budget.acquire(projectId, ask('two'));
    return status();
  });
  const later = await withWorker(async () => {
    expect(await budget.acquire(projectId, one)).toMatchObject({ answer: { kind: 'done', outcome: 'sent' } });
    return status();
  });
  expect(later).toEqual(asked);
  const { events } = await handle.fetchHistory();
  expect(events?.some((event) => event.workflowTaskFailedEventAttributes)).toBe(false);
  expect(events?.some((event) => event.workflowPropertiesModifiedEventAttributes)).toBe(false);
  await handle.terminate();
});

test('a long run that is taken over leaves a history that replays: its first timer comes after the answer, not within it', async () => {
  const { budget } = asker;
  const projectId = `long-${randomUUID()}`;
  const workflowId = projectBudgetWorkflowId(projectId);
  const handle = new Client({ connection }).workflow.getHandle(workflowId);
  const one = makeAcquireRequest({ workflowId: `follow-up/${projectId}/one/key`, jobId: 'one' });
  await withWorker(async () => {
    await budget.acquire(projectId, one);
    // The settle and the end leave four events each. Together, they stay below the 1,000 at which a run should end.
    while ((await handle.describe()).historyLength < 987)
      await handle.executeUpdate(acquireUpdate, { args: [[one], []] });
    await budget.tell(projectId, { kind: 'settle', ...one, outcome: 'sent' }, { isUrgent: true });
    await eventually('the settle is heard', async () => (await handle.query(budgetStatusQuery)).unsettled === 0);
    await budget.tell(projectId, { kind: 'finish', ...one, outcome: 'sent' }, { isUrgent: false });
    await eventually('the end is heard', async () => !(await handle.describe()).raw.pendingWorkflowTask);
  });
  const { runId, historyLength } = await handle.describe();
  expect(historyLength).toBeGreaterThan(994);
  expect(historyLength).toBeLessThan(1_000);
  await withWorker(() =>
    budget.acquire(projectId, makeAcquireRequest({ workflowId: `follow-up/${projectId}/two/key`, jobId: 'two' })),
  );
  const history = await new Client({ connection }).workflow.getHandle(workflowId, runId).fetchHistory();
  await handle.terminate();
  const options = { workflowBundle: builtBundle, sinks: new BudgetMetrics().sinks };
  await Worker.runReplayHistory(options, history, workflowId);
});
