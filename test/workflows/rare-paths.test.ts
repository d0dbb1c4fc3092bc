import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { resetToTask } from '../../chaos/buttons.js';
import { FollowUpClient } from '../../src/client/index.js';
import {
  type FollowUpProgress,
  followUpWorkflowId,
  progressQuery,
  projectBudgetWorkflowId,
} from '../../src/contract/index.js';
import { type BudgetWord, carriedStateQuery, reportSignal } from '../../src/contract/protocol.js';
import { askUntilProven, connectBudgetClient, makeAcquireRequest } from '../support/budget-client.js';
import { eventually } from '../support/eventually.js';
import { failureOf } from '../support/failure-of.js';
import { record } from '../support/histories.js';
import { ScriptedService } from '../support/scripted-service.js';
import { startWorkflowRig, type WorkflowRig } from '../support/workflow-rig.js';

const BEFORE = { id: 'j', status: 'completed', prLink: 'https://git.example/pull/1' };
const ACTIVE = { id: 'j', status: 'active', prLink: null };
const AFTER = { id: 'j', status: 'completed', prLink: 'https://git.example/pull/2' };
const FAST = { poll: { initialInterval: 100, maxInterval: 200 }, settleTime: 0 };

const address = inject('temporalAddress');
const service = new ScriptedService();
let rig: WorkflowRig;
let followUps: FollowUpClient;

beforeAll(async () => {
  rig = await startWorkflowRig({ address, agentJobs: service });
  followUps = new FollowUpClient({ client: rig.client, taskQueue: rig.taskQueue });
});
afterAll(async () => {
  await service.close();
  await rig.stop();
});

const newTarget = () => ({ projectId: `p-${randomUUID().slice(0, 8)}`, jobId: 'j', prompt: 'x', ...FAST });
const budgetIdOf = ({ projectId }: { projectId: string }) => projectBudgetWorkflowId(projectId);

/** The input of a follow-up to a new job, whose reads are scripted. */
function scripted(...reads: Parameters<ScriptedService['reads']>[1][]) {
  const input = { ...newTarget(), jobId: `job-${randomUUID().slice(0, 8)}` };
  service.reads(input.jobId, ...reads);
  return input;
}

const shows = (handle: Awaited<ReturnType<WorkflowRig['start']>>, expected: Partial<FollowUpProgress>) =>
  eventually(`it shows ${JSON.stringify(expected)}`, async () => {
    const progress = await handle.query(progressQuery);
    return Object.entries(expected).every(([key, value]) => progress[key as keyof FollowUpProgress] === value);
  });

test.concurrent('a follow-up that is reset continues from there and sends nothing again', async () => {
  const input = scripted(BEFORE, ACTIVE, AFTER);
  const handle = await rig.start(input);
  await handle.result();
  const { runId } = await rig.client.workflow.getHandle(handle.workflowId).describe();
  const { events } = await rig.client.workflow.getHandle(handle.workflowId).fetchHistory();
  const tasks = (events ?? []).filter((event) => event.workflowTaskCompletedEventAttributes);
  for (const [name, task] of [
    ['before its send', tasks[0]],
    ['after its send', tasks[2]],
  ] as const) {
    const newRunId = await resetToTask(rig.client, { workflowId: handle.workflowId, runId }, task);
    expect(await rig.client.workflow.getHandle(handle.workflowId, newRunId).result()).toMatchObject({
      delivery: 'sent',
    });
    await record(rig.client, `a follow-up that was reset ${name}`, handle.workflowId, newRunId);
  }
  expect(service.received.filter(({ jobId }) => jobId === input.jobId)).toHaveLength(1);
});

test.concurrent('a read of the job that never ends counts as failed', async () => {
  const input = scripted(BEFORE, ACTIVE, AFTER);
  service.hangs(input.jobId);
  const handle = await rig.start(input);
  expect(await handle.result()).toMatchObject({ delivery: 'sent' });
  await record(rig.client, 'a follow-up whose local activity timed out', handle.workflowId);
});

test.concurrent('a follow-up beyond 1,000 waiters says so, waits, and can be cancelled', async () => {
  const input = scripted(BEFORE);
  const { budget, close } = await connectBudgetClient({ address, taskQueue: rig.taskQueue, limit: 0 });
  const ask = (index: number) =>
    askUntilProven(
      budget,
      input.projectId,
      makeAcquireRequest({ workflowId: `w${index}`, jobId: `j${index}`, token: 't' }),
    );
  await Promise.all(Array.from({ length: 1_000 }, (_, index) => ask(index)));
  await close();
  const handle = await rig.start(input);
  await shows(handle, { state: 'blocked', waitReason: 'queue-full' });
  await handle.cancel();
  expect(await failureOf(handle.result())).toMatchObject({ type: 'Canceled' });
  await record(rig.client, 'a follow-up for which the queue is full', handle.workflowId);
});

test.concurrent('orders of an operator hold a follow-up back and let it through', async () => {
  const input = scripted(BEFORE, BEFORE, BEFORE, ACTIVE, AFTER);
  const budget = followUps.budget(input.projectId);
  await budget.pause({ note: 'maintenance' });
  await budget.setLimit({ limit: 7, reserve: 2 });
  const handle = await rig.start(input);
  await shows(handle, { state: 'blocked', waitReason: 'paused' });
  await budget.pause({ for: '1h' });
  await budget.resume();
  expect(await handle.result()).toMatchObject({ delivery: 'sent' });
  await record(rig.client, 'a budget that was paused, changed and resumed', budgetIdOf(input));
  await record(rig.client, 'a follow-up that waits for a paused budget', handle.workflowId);
});

test.concurrent('a stopped budget blocks a follow-up, and can be restored with its state or as full', async () => {
  const input = scripted(BEFORE, ACTIVE, AFTER);
  const first = await rig.start(input);
  await first.result();
  const budget = rig.client.workflow.getHandle(budgetIdOf(input));
  await eventually('the end is known', async () =>
    JSON.stringify(await budget.query(carriedStateQuery)).includes('"turns":[]'),
  );
  await budget.terminate();
  service.reads(input.jobId, BEFORE);
  const blocked = await rig.start(input);
  await shows(blocked, { state: 'blocked', waitReason: 'gate-stopped' });
  await blocked.cancel();
  await expect(blocked.result()).rejects.toMatchObject({ cause: { name: 'CancelledFailure' } });
  await record(rig.client, 'a follow-up whose budget is stopped', blocked.workflowId);

  await followUps.budget(input.projectId).restore();
  service.reads(input.jobId, BEFORE, ACTIVE, AFTER);
  const next = await rig.start(input);
  await next.result();
  await record(rig.client, 'a budget that was restored', budgetIdOf(input));

  await budget.terminate();
  const before = scripted(BEFORE);
  const old = followUps.budget(input.projectId);
  await old.restore({ assumeFull: true });
  expect(await old.status()).toMatchObject({ used: 100 });
  const late = await rig.start({ ...before, projectId: input.projectId });
  await shows(late, { state: 'waiting-for-budget' });
  await late.cancel();
  expect(await failureOf(late.result())).toMatchObject({ type: 'Canceled' });
  await record(rig.client, 'a budget that is taken for full', budgetIdOf(input));
});

test.concurrent(
  'a budget skips signals that make no sense, and fails with InvalidInput if its input makes none',
  async () => {
    const input = scripted(BEFORE, ACTIVE, AFTER);
    const handle = await rig.start(input);
    await handle.result();
    const budget = rig.client.workflow.getHandle(budgetIdOf(input));
    for (const report of [{ nonsense: true }, [{ kind: 'settle' }]]) await budget.signal('report', report);
    expect(await rig.budgetStatus(input.projectId)).toMatchObject({ used: 1 });
    await record(rig.client, 'a budget that is sent nonsense', budgetIdOf(input));

    const bad = await rig.client.workflow.start('projectBudget', {
      taskQueue: `${rig.taskQueue}-budget`,
      workflowId: projectBudgetWorkflowId(`bad-${randomUUID()}`),
      args: [{ projectId: 'other' }],
    });
    await expect(bad.result()).rejects.toMatchObject({ cause: { type: 'InvalidInput' } });
    await record(rig.client, 'a budget with invalid input', bad.workflowId);
  },
);

test.concurrent('a follow-up whose end the budget has recorded is not sent', async () => {
  const other = scripted(BEFORE, ACTIVE, AFTER);
  await (await rig.start(other)).result();
  const input = { ...scripted(BEFORE), projectId: other.projectId };
  const workflowId = followUpWorkflowId({ ...input, key: 'closed' });
  const { jobId } = input;
  const withdraw: BudgetWord = { kind: 'withdraw', workflowId, jobId, sendNumber: 1 };
  await rig.client.workflow.getHandle(budgetIdOf(input)).signal(reportSignal, [withdraw]);
  const handle = await rig.start(input, 'closed');
  expect(await failureOf(handle.result())).toMatchObject({ type: 'Closed', delivered: 'no' });
  await record(rig.client, 'a follow-up that is closed', handle.workflowId);
});

test.concurrent('a follow-up can be cancelled while its job works for somebody else, or cannot be read', async () => {
  const waiting = await rig.start(scripted(ACTIVE));
  await shows(waiting, { state: 'waiting-for-job' });
  await waiting.cancel();
  expect(await failureOf(waiting.result())).toMatchObject({ type: 'Canceled' });
  await record(rig.client, 'a follow-up that is cancelled while it waits for its job', waiting.workflowId);

  const blocked = await rig.start(scripted({ kind: 'failed', reason: 'network', message: 'refused' }));
  await shows(blocked, { state: 'blocked', waitReason: 'service' });
  await blocked.cancel();
  expect(await failureOf(blocked.result())).toMatchObject({ type: 'Canceled' });
  await record(rig.client, 'a follow-up that is cancelled while its job cannot be read', blocked.workflowId);
});

test.concurrent(
  'a batch that a schedule starts sends its follow-ups, and an invalid batch fails as a whole',
  async () => {
    const { projectId, jobId } = scripted(BEFORE, ACTIVE, AFTER);
    const unknown = scripted({ kind: 'notFound', message: 'HTTP 404' });
    const schedule = await followUps.schedules.create({
      name: `nightly-${randomUUID().slice(0, 8)}`,
      every: '365d',
      input: {
        items: [
          { projectId, jobId, prompt: 'x', ...FAST },
          { projectId, jobId: unknown.jobId, prompt: 'x', ...FAST },
        ],
      },
    });
    try {
      const { batchId } = await schedule.trigger();
      const result = await followUps.batch(batchId).result();
      expect(result).toMatchObject({ total: 2, completed: 1, errors: 1 });
      await record(rig.client, 'a batch that a schedule started', `follow-up-batch/${batchId}`);
      await record(rig.client, 'a part of a batch that a schedule started', `follow-up-batch/${batchId}/0`);
      await record(rig.client, 'a follow-up that a schedule started', `follow-up/${projectId}/${jobId}/${batchId}:0`);
    } finally {
      await schedule.delete();
    }
    const bad = await rig.client.workflow.start('followUpBatch', {
      taskQueue: rig.taskQueue,
      workflowId: `follow-up-batch/${randomUUID()}`,
      args: [{ items: 'none' }],
    });
    await expect(bad.result()).rejects.toMatchObject({ cause: { type: 'InvalidInput' } });
    await record(rig.client, 'a batch with invalid input', bad.workflowId);
  },
);

test.concurrent('a batch continues after a follow-up or a part of it was terminated', async () => {
  const input = scripted(ACTIVE);
  const batchId = randomUUID();
  const workflowId = `follow-up-batch/${batchId}`;
  const start = { taskQueue: rig.taskQueue, workflowId, args: [{ items: [input] }] };
  const batch = await rig.client.workflow.start('followUpBatch', start);
  const followUp = rig.client.workflow.getHandle(`follow-up/${input.projectId}/${input.jobId}/${batchId}:0`);
  await eventually('the follow-up runs', async () => (await followUp.describe()).status.name === 'RUNNING');
  await followUp.terminate();
  expect(await batch.result()).toMatchObject({ errors: 1 });
  await record(rig.client, 'a part of a batch whose follow-up was terminated', `${workflowId}/0`);

  const otherId = `follow-up-batch/${randomUUID()}`;
  const otherInput = scripted(BEFORE, ACTIVE, AFTER);
  const budget = followUps.budget(otherInput.projectId);
  await budget.pause();
  const other = await rig.client.workflow.start('followUpBatch', {
    ...start,
    workflowId: otherId,
    args: [{ items: [otherInput] }],
  });
  await eventually('its follow-up waits', async () => (await budget.status())?.waitingTotal === 1);
  const part = rig.client.workflow.getHandle(`${otherId}/0`);
  await part.terminate();
  await eventually('the part runs again', async () => (await part.describe()).status.name === 'RUNNING');
  await budget.resume();
  expect(await other.result()).toMatchObject({ completed: 1, errors: 0 });
  await record(rig.client, 'a batch whose part was terminated', otherId);
});
