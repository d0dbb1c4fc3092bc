import { randomUUID } from 'node:crypto';
import type { WorkflowHandle } from '@temporalio/client';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { BudgetClient } from '../../src/activities/index.js';
import { type CarriedState, restoreState } from '../../src/budget/index.js';
import { INVITATION_GRACE_MS } from '../../src/budget/limits.js';
import { decodePayloads } from '../../src/client/history.js';
import { InvalidInputError } from '../../src/client/index.js';
import {
  budgetStatusQuery,
  type FollowUpResult,
  pauseUpdate,
  projectBudgetWorkflowId,
} from '../../src/contract/index.js';
import { type AcquireRequest, wakeSignal } from '../../src/contract/protocol.js';
import { type DevServer, startDevServer } from '../../src/embedded/dev-server.js';
import { measureHistories } from '../support/batch.js';
import { connectBudgetClient, makeAcquireRequest } from '../support/budget-client.js';
import { eventually } from '../support/eventually.js';
import { ScriptedService } from '../support/scripted-service.js';
import { FAST, type Stack, startStack } from '../support/stack.js';
import { startWorkflowRig, type WorkflowRig } from '../support/workflow-rig.js';

/** `ROUNDS=220 npx vitest run test/workflows/lowered-limits.long.test.ts` is the long form, with more than 400 runs. */
const ROUNDS = Number(process.env['ROUNDS'] ?? 10);

function startLimitedServer(limits: Readonly<Record<string, number>>): Promise<DevServer> {
  // By default, a run that ends within a second delays the next one. These tests need short runs.
  const settings = { 'history.workflowIdReuseMinimalInterval': '"0s"', ...limits };
  const extraArgs = Object.entries(settings).flatMap(([key, value]) => ['--dynamic-config-value', `${key}=${value}`]);
  return startDevServer({ env: process.env, extraArgs });
}

function makeRequest(followUp: number | string): AcquireRequest {
  return makeAcquireRequest({ workflowId: `follow-up/p/job-${followUp}/key`, jobId: `job-${followUp}` });
}

type HistoryEvents = NonNullable<Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']>;

/** When the open timers of a run would fire, in epoch milliseconds. */
function openTimers(events: HistoryEvents): number[] {
  const over = events.map(
    (event) => event.timerFiredEventAttributes?.timerId ?? event.timerCanceledEventAttributes?.timerId,
  );
  return events
    .filter(({ timerStartedEventAttributes: started }) => started && !over.includes(started.timerId))
    .map((event) => tsToMs(event.eventTime) + tsToMs(event.timerStartedEventAttributes?.startToFireTimeout));
}

/** The events of every run of a workflow, from the latest run back to the first. */
async function historiesOf({ client }: Pick<Stack, 'client'>, workflowId: string): Promise<HistoryEvents[]> {
  const runs: HistoryEvents[] = [];
  let runId: string | null | undefined = (await client.workflow.getHandle(workflowId).describe()).runId;
  while (runId) {
    const events: HistoryEvents = (await client.workflow.getHandle(workflowId, runId).fetchHistory()).events ?? [];
    runs.push(events);
    runId = events[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId;
  }
  return runs;
}

describe('a server with lowered limits', () => {
  const BLOB_BYTES = 64 * 1_024;
  let server: DevServer;
  let stack: Stack;
  beforeAll(async () => {
    server = await startLimitedServer({
      'limit.historyCount.suggestContinueAsNew': 30,
      'history.maxTotalUpdates': 20,
      'history.maxInFlightUpdates': 3,
      'history.maximumSignalsPerExecution': 60,
      'limit.blobSize.warn': BLOB_BYTES / 2,
      'limit.blobSize.error': BLOB_BYTES,
    });
    stack = await startStack({
      address: server.address,
      env: { FOLLOW_UP_BUDGET_LIMIT: '1000' },
      simulator: { limiter: { kind: 'none' } },
    });
  });
  afterAll(async () => {
    await stack.stop();
    await server.stop();
  });

  test('loses and repeats none of 140 follow-ups over at least 10 runs of their budget', async () => {
    const projectId = 'limited';
    const inputs = Array.from({ length: 140 }, (_, index) => ({
      projectId,
      jobId: `job-${index}`,
      prompt: `message ${index}`,
      ...FAST,
    }));
    for (const { jobId } of inputs) stack.simulator.addJob({ projectId, jobId });
    // Few at a time, so they share few updates.
    const results: FollowUpResult[] = [];
    const left = inputs.values();
    const lane = async () => {
      for (const input of left) results.push(await stack.followUps.run(input));
    };
    await Promise.all(Array.from({ length: 6 }, lane));
    expect(results.filter(({ status, delivery }) => status === 'completed' && delivery === 'sent')).toHaveLength(140);
    expect(stack.simulator.ledger).toHaveLength(140);
    expect(new Set(stack.simulator.ledger.map(({ jobId }) => jobId)).size).toBe(140);
    const workflowId = projectBudgetWorkflowId(projectId);
    const runs = await historiesOf(stack, workflowId);
    expect(runs.length).toBeGreaterThanOrEqual(10);
    const measured = await measureHistories(stack, workflowId);
    expect(measured.failedTasks).toBe(0);
    expect(measured.payloadBytes).toBeLessThan(BLOB_BYTES / 2);
  });

  test('lets a budget that gets nothing but asks answer all of them', async () => {
    const projectId = 'asked';
    await stack.followUps.budget(projectId).setLimit({ limit: 0 });
    const { namespace, taskQueue } = stack;
    const { budget, close } = await connectBudgetClient({ address: server.address, namespace, taskQueue, limit: 0 });
    for (let ask = 0; ask < 45; ask++) {
      expect(await budget.acquire(projectId, makeRequest(ask))).toMatchObject({
        proven: true,
        answer: { kind: 'wait' },
      });
    }
    await close();
    expect(await stack.followUps.budget(projectId).status()).toMatchObject({ waitingTotal: 45 });
  });

  test('lets an order take effect once, even if it is repeated on a later run with the same id', async () => {
    const projectId = 'ordered';
    const handle = stack.client.workflow.getHandle(projectBudgetWorkflowId(projectId));
    const budget = stack.followUps.budget(projectId);
    await budget.setLimit({ limit: 0 });
    const pause = () => handle.executeUpdate(pauseUpdate, { args: [{ note: 'once' }], updateId: 'the-pause' });
    expect(await pause()).toMatchObject({ paused: { reasons: ['operator'], note: 'once' } });
    await budget.resume();
    const { runId } = await handle.describe();
    const { namespace, taskQueue } = stack;
    const asking = await connectBudgetClient({ address: server.address, namespace, taskQueue, limit: 0 });
    for (let ask = 0; (await handle.describe()).runId === runId; ask++) {
      await asking.budget.acquire(projectId, makeRequest(ask));
    }
    await asking.close();
    expect((await pause()).paused).toBeUndefined();
    expect((await budget.pause({ note: 'again' })).paused).toMatchObject({ note: 'again' });
  });

  test('refuses a prompt that is too long for it at the start, and the client says so', async () => {
    const jobId = 'long';
    const start = stack.followUps.start({ projectId: 'limited', jobId, prompt: 'x'.repeat(BLOB_BYTES + 1), ...FAST });
    await expect(start).rejects.toThrow(InvalidInputError);
    await expect(start).rejects.toThrow(/prompt/);
  });

  test('delivers a prompt that only the first event has room for', async () => {
    const input = { projectId: 'edge', jobId: 'edge', prompt: 'x'.repeat(BLOB_BYTES - 100) };
    stack.simulator.addJob({ projectId: input.projectId, jobId: input.jobId });
    const handle = await stack.followUps.start(input);
    expect(await handle.result()).toMatchObject({ delivery: 'sent' });
    expect(stack.simulator.ledger.filter((entry) => entry.jobId === input.jobId)).toHaveLength(1);
  });

  test('ends a follow-up whose prompt is too long for its next run, without a loop of failed tasks', async () => {
    const input = { projectId: 'edge-paused', jobId: 'edge-2', prompt: 'x'.repeat(BLOB_BYTES - 100) };
    stack.simulator.addJob({ projectId: input.projectId, jobId: input.jobId });
    await stack.followUps.budget(input.projectId).pause();
    const { workflowId } = await stack.followUps.start(input);
    const handle = stack.client.workflow.getHandle(workflowId);
    await eventually('it ends', async () => {
      await handle.signal(wakeSignal).catch(() => undefined);
      return (await handle.describe()).status.name !== 'RUNNING';
    });
    await expect(stack.followUps.handle(workflowId).result()).rejects.toMatchObject({ delivered: 'unknown' });
    expect(stack.simulator.ledger.filter((entry) => entry.jobId === input.jobId)).toHaveLength(0);
    const { events } = await handle.fetchHistory();
    expect(events?.filter((event) => event.workflowTaskFailedEventAttributes).length).toBeLessThan(3);
  });
});

describe('a budget that continues as new all the time', () => {
  const ASKERS = 5;
  let server: DevServer;
  let rig: WorkflowRig;
  const budgets: BudgetClient[] = [];
  const closers: (() => Promise<unknown>)[] = [];
  beforeAll(async () => {
    server = await startLimitedServer({ 'limit.historyCount.suggestContinueAsNew': 10 });
    const { address } = server;
    rig = await startWorkflowRig({ address, agentJobs: new ScriptedService() });
    for (let worker = 0; worker < ASKERS; worker++) {
      const { budget, close } = await connectBudgetClient({ address, taskQueue: rig.taskQueue, limit: 10_000 });
      closers.push(close);
      budgets.push(budget);
    }
  });
  afterAll(async () => {
    await Promise.all(closers.map((close) => close()));
    await rig.stop();
    await server.stop();
  });

  test('ends no run while anybody is invited or awaits the end of a send, or is due to be invited within a second', async () => {
    // In so short a window, those who wait await the end of each send.
    const env = { FOLLOW_UP_BUDGET_LIMIT: '2', FOLLOW_UP_BUDGET_WINDOW: '5700ms', FOLLOW_UP_MARGIN: '200ms' };
    const stack = await startStack({ address: server.address, env });
    const projectId = 'quiet';
    const inputs = Array.from({ length: 14 }, (_, index) => ({
      projectId,
      jobId: `job-${index}`,
      prompt: 'x',
      ...FAST,
    }));
    for (const { jobId } of inputs) stack.simulator.addJob({ projectId, jobId });
    await Promise.all(inputs.map((input) => stack.followUps.run(input)));
    const workflowId = projectBudgetWorkflowId(projectId);
    const [, ...ended] = await historiesOf(stack, workflowId);
    let runsWithWaiters = 0;
    for (const events of ended) {
      const { input } = events.at(-1)!.workflowExecutionContinuedAsNewEventAttributes!;
      const [, carried] = await decodePayloads(stack.client, workflowId, input?.payloads);
      const endedAtMs = tsToMs(events.findLast((event) => event.workflowTaskStartedEventAttributes)!.eventTime);
      const { waiters, grants } = restoreState(carried as CarriedState);
      const invited = waiters.filter(({ invitedAtMs = -Infinity }) => invitedAtMs + INVITATION_GRACE_MS >= endedAtMs);
      expect(invited).toEqual([]);
      expect(grants.filter(({ isAwaited }) => isAwaited)).toEqual([]);
      if (waiters.length > 0) runsWithWaiters++;
      for (const dueAtMs of openTimers(events)) expect(dueAtMs).toBeGreaterThan(endedAtMs + 1_000);
    }
    expect(runsWithWaiters).toBeGreaterThan(2);
    await stack.stop();
  });

  test(
    'grants every ask once, whichever run it reaches',
    async () => {
      const projectId = 'p';
      const workflowId = projectBudgetWorkflowId(projectId);
      const answers: string[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        const requests = budgets.map((_budget, asker) => makeRequest(`${asker}-${round}`));
        const each = <T>(does: (budget: BudgetClient, request: AcquireRequest) => Promise<T>) =>
          Promise.all(budgets.map((budget, asker) => does(budget, requests[asker]!)));
        const asks = await each((budget, request) => budget.acquire(projectId, request));
        answers.push(...asks.map(({ answer }) => answer.kind));
        // The last settle ends the run, unless its task answers an ask, too. The next asks reach that end or the next run.
        await each((budget, request) =>
          budget.tell(projectId, { kind: 'settle', ...request, outcome: 'sent' }, { isUrgent: true }),
        );
        const again = await each((budget, request) => budget.acquire(projectId, { ...request, token: randomUUID() }));
        const done = { proven: true, answer: { kind: 'done', outcome: 'sent' } };
        expect(again).toMatchObject(budgets.map(() => done));
      }
      expect(answers).toEqual(Array<string>(ASKERS * ROUNDS).fill('granted'));
      const { used } = await rig.client.workflow.getHandle(workflowId).query(budgetStatusQuery);
      expect(used).toBe(ASKERS * ROUNDS);

      const applied = new Map<string, number>();
      const runs = await historiesOf(rig, workflowId);
      for (const events of runs) {
        for (const { workflowExecutionUpdateAcceptedEventAttributes: accepted } of events) {
          const updateId = accepted?.acceptedRequest?.meta?.updateId;
          if (updateId) applied.set(updateId, (applied.get(updateId) ?? 0) + 1);
        }
      }
      const appliedAgain = [...applied.values()].filter((times) => times > 1).length;
      console.log(`${runs.length} runs, ${applied.size} updates, ${appliedAgain} of them applied again on a later run`);
      expect(runs.length).toBeGreaterThan(ROUNDS / 2);
    },
    Math.max(120_000, ROUNDS * 2_000),
  );
});
