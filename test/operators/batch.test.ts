import { describe, expect, inject, onTestFinished, test } from 'vitest';
import type { BatchHandle, StartBatchInput } from '../../src/client/index.js';
import { batchItemKey, followUpWorkflowId, SearchAttribute } from '../../src/contract/index.js';
import { runCli } from '../cli/run-cli.js';
import { makeItems } from '../support/batch.js';
import { deleteWorkflow, pauseWorkflow, resetWorkflow, unpauseWorkflow } from '../support/buttons.js';
import { eventually } from '../support/eventually.js';
import { type Project, useStack } from '../support/project.js';
import { FAST, startStack } from '../support/stack.js';

const operated = useStack({ simulator: { autoCreate: true } });
const { newProject } = operated;

type OperatedBatch = BatchHandle & { project: Project };

/** A batch of eight items with the same id as its project. */
async function startBatch(more: Partial<StartBatchInput> = {}, project = newProject()): Promise<OperatedBatch> {
  const items = makeItems(operated.stack, [project.id], 8, FAST);
  return Object.assign(await operated.stack.followUps.startBatch({ id: project.id, items, ...more }), { project });
}

/** One whose first three items have ended, while the others wait until {@link letAllGo}. */
async function startHeld(): Promise<OperatedBatch> {
  const project = newProject();
  await project.budget.setLimit({ limit: 3 });
  const batch = await startBatch({}, project);
  await eventually('three have ended', async () => (await batch.status()).completed === 3);
  return batch;
}
const letAllGo = ({ project }: OperatedBatch) => project.budget.setLimit({ limit: 100 });

/** Expects that all eight items were sent once and completed. */
async function endsWell(batch: OperatedBatch) {
  const result = await batch.result();
  expect(result.items.filter(({ status }) => status !== 'completed')).toEqual([]);
  expect(result).toMatchObject({ total: 8, completed: 8, errors: 0 });
  expect(result.items).toHaveLength(8);
  expect(batch.project.ledger).toHaveLength(8);
  return result;
}
const client = () => operated.stack.client;
const partOf = async (batch: BatchHandle) => ({ workflowId: (await batch.parts())[0]! });
const workflowOf = ({ workflowId }: { workflowId: string }) => client().workflow.getHandle(workflowId);
const detailsOf = async (workflow: { workflowId: string }) =>
  (await workflowOf(workflow).query<{ currentDetails: string }>('__temporal_workflow_metadata')).currentDetails;
const isGone = (what: () => Promise<unknown>) =>
  eventually('it is gone', () =>
    what().then(
      () => false,
      () => true,
    ),
  );

async function hasNothingToRetry(batch: BatchHandle) {
  const plan = await batch.planRetry();
  expect(plan.input.items).toEqual([]);
  await expect(batch.retry(plan)).rejects.toMatchObject({ type: 'NothingToRetry' });
}

describe.concurrent('a batch with a canary or a limit of failures', () => {
  const isHeld = (batch: BatchHandle) => eventually('it is held', async () => (await batch.status()).hold);

  test('sends exactly its canary until it is continued, even if it is reset and its part terminated', async () => {
    const batch = await startBatch({ canary: 2 });
    const { at } = await isHeld(batch);
    const held = { name: 'canary', reason: 'the canary has ended: 2 of 8 items' };
    expect(await batch.status()).toMatchObject({ hold: { ...held, at }, completed: 2, open: 0, waitingToStart: 6 });
    expect(await detailsOf(batch)).toContain(`follow-up batch continue ${batch.batchId}`);
    const query = `FollowUpBatchId = '${batch.batchId}' AND FollowUpState = 'held'`;
    await eventually('a list query finds it', async () => (await client().workflow.count(query)).count === 1);
    await resetWorkflow(client(), batch.workflowId, 'first');
    await isHeld(batch);
    const { workflowId: part } = await partOf(batch);
    await resetWorkflow(client(), part, 'first');
    await workflowOf({ workflowId: part }).terminate('by hand');
    await resetWorkflow(client(), batch.workflowId, 'last');
    expect(await isHeld(batch)).toMatchObject(held);
    expect(batch.project.ledger).toHaveLength(2);
    expect(await batch.continue()).toMatchObject(held);
    await endsWell(batch);
    await expect(batch.continue()).rejects.toMatchObject({ type: 'BatchEnded' });
  });

  test('is held when more items fail than maxFailures allows, and continues on command', async () => {
    const project = newProject();
    const items = makeItems(operated.stack, [project.id], 8, FAST);
    for (const { jobId } of items.slice(0, 3)) project.addJob(jobId, { status: 'archived' });
    const batch = await operated.stack.followUps.startBatch({ id: project.id, items, maxFailures: '25%', maxOpen: 1 });
    expect(await isHeld(batch)).toMatchObject({ name: 'max-failures', reason: '3 of 8 items failed (25% may)' });
    expect(project.ledger.length).toBeLessThanOrEqual(1);
    await batch.continue();
    await expect(batch.continue()).rejects.toMatchObject({ type: 'BatchNotHeld' });
    expect(await batch.result()).toMatchObject({ completed: 5, errorsByType: { JobArchived: 3 } });
  });

  test('has a retry with the same canary if it is cancelled while it is held', { tags: 'long' }, async () => {
    const batch = await startBatch({ canary: 2 });
    await isHeld(batch);
    await batch.cancel();
    expect(await batch.result()).toMatchObject({ completed: 2, errors: 6, errorsByType: { Cancelled: 6 } });
    const retry = await batch.retry(await batch.planRetry());
    expect(await isHeld(retry)).toMatchObject({ reason: 'the canary has ended: 2 of 6 items' });
    expect(batch.project.ledger).toHaveLength(4);
    await retry.continue();
    expect(await retry.result()).toMatchObject({ total: 6, completed: 6 });
    expect(batch.project.ledger).toHaveLength(8);
  });
});

describe.concurrent('a running batch', () => {
  test('shows that it was terminated, and how many of its follow-ups still run', async () => {
    const batch = await startHeld();
    await workflowOf(batch).terminate('by hand');
    const cutOff = { ended: false, cutOff: 'terminated' };
    const inState = async (state: string) => (await batch.listed()).find((each) => each.state === state)?.count;
    await expect.poll(() => batch.status()).toMatchObject(cutOff);
    expect((await batch.listed({ isOpen: true })).reduce((sum, { count }) => sum + count, 0)).toBe(5);
    await letAllGo(batch);
    await expect.poll(() => inState('completed')).toBe(8);
    expect(batch.project.ledger).toHaveLength(8);
  });

  test('says what its items wait for and what to do, also without a worker', async () => {
    const stack = await startStack({ address: inject('temporalAddress'), simulator: { autoCreate: true } });
    onTestFinished(() => stack.stop());
    const env = { TEMPORAL_ADDRESS: inject('temporalAddress'), FOLLOW_UP_TASK_QUEUE: stack.taskQueue };
    const projectId = stack.taskQueue;
    await stack.followUps.budget(projectId).pause({ note: 'freeze' });
    const items = makeItems(stack, [projectId], 3, FAST);
    await stack.followUps.startBatch({ id: projectId, items });
    const says = (what: RegExp) =>
      eventually(`it says ${String(what)}`, async () =>
        what.test((await runCli(['batch', 'status', projectId], { env })).stdout),
      );
    await says(
      /^ {2}project \S+: 3 blocked; its budget: paused: by an operator .* \(freeze\); to do: follow-up budget resume /m,
    );
    await stack.stopWorker();
    await says(/^batch \S+ does not answer: .*; its items, as Temporal lists them\nblocked +3 in project /);
  });

  test('shows that it is paused in Temporal, and continues when it is unpaused', { tags: 'long' }, async () => {
    const batch = await startHeld();
    await pauseWorkflow(client(), batch.workflowId);
    const fix = `temporal workflow unpause --workflow-id ${batch.workflowId}`;
    await expect.poll(() => batch.troubles()).toMatchObject([{ kind: 'paused', fix }]);
    await expect(batch.status()).rejects.toMatchObject({ message: expect.stringContaining(fix) });
    await unpauseWorkflow(client(), batch.workflowId);
    await letAllGo(batch);
    await endsWell(batch);
  });

  test('is not found after it was deleted, and its follow-ups continue', { tags: 'long' }, async () => {
    const batch = await startHeld();
    await deleteWorkflow(client(), batch.workflowId);
    await isGone(() => batch.describe());
    await expect(batch.status()).rejects.toMatchObject({ type: 'BatchNotFound' });
    await letAllGo(batch);
    await batch.project.deliveries(8);
  });
});

describe.concurrent.each(['first', 'last'] as const)('a reset to the %s task', { tags: 'long' }, (point) => {
  test('changes nothing for a batch that runs, that was terminated, or that has ended', async () => {
    const batch = await startHeld();
    await resetWorkflow(client(), batch.workflowId, point);
    await eventually('it knows them again', async () => (await batch.status()).completed === 3);
    await workflowOf(batch).terminate('by hand');
    await resetWorkflow(client(), batch.workflowId, point);
    await letAllGo(batch);
    const before = await endsWell(batch);
    await resetWorkflow(client(), batch.workflowId, point);
    expect(await endsWell(batch)).toEqual(before);
    await hasNothingToRetry(batch);
  });

  test('changes nothing for a part that runs or has ended', async () => {
    const batch = await startHeld();
    const part = await partOf(batch);
    await resetWorkflow(client(), part.workflowId, point);
    await letAllGo(batch);
    await endsWell(batch);
    await resetWorkflow(client(), part.workflowId, point);
    await workflowOf(part).result();
    expect(batch.project.ledger).toHaveLength(8);
  });
});

describe.concurrent('a part of a batch', () => {
  test('is started again if it is terminated, and all its items complete', async () => {
    const batch = await startHeld();
    await workflowOf(await partOf(batch)).terminate('by hand');
    await letAllGo(batch);
    await endsWell(batch);
  });

  test('refuses to cancel, names the command for its batch, and continues', async () => {
    const batch = await startHeld();
    const part = await partOf(batch);
    await workflowOf(part).cancel();
    await eventually('it says so', async () => (await detailsOf(part)).includes('Cancel refused'));
    expect(await detailsOf(part)).toContain(`follow-up batch cancel ${batch.batchId}`);
    await letAllGo(batch);
    await endsWell(batch);
  });

  test(
    'leaves what it had reported if it is deleted, and a retry says that its items are lost',
    { tags: 'long' },
    async () => {
      const batch = await startHeld();
      await deleteWorkflow(client(), (await partOf(batch)).workflowId);
      const result = await batch.result();
      expect(result).toMatchObject({ total: 8, completed: 3, errors: 5, unknown: 5, errorsByType: { Terminated: 5 } });
      await letAllGo(batch);
      await batch.project.deliveries(8);
      await expect(batch.planRetry()).rejects.toMatchObject({ type: 'BatchPartNotFound' });
    },
  );
});

describe.concurrent('a retry', () => {
  /** A batch of eight items of which three are delivered, and the others are cancelled before their send. */
  async function cancelledAfterThree(): Promise<OperatedBatch> {
    const batch = await startHeld();
    await batch.cancel();
    expect(await batch.result()).toMatchObject({ completed: 3, errors: 5, unknown: 0 });
    await letAllGo(batch);
    return batch;
  }

  test('knows what other retries did, so that nothing is delivered twice', async () => {
    const batch = await cancelledAfterThree();
    const first = await batch.retry(await batch.planRetry({ only: 'failed' }));
    expect(first.batchId).toBe(`${batch.batchId}-retry-1`);
    await hasNothingToRetry(batch);
    expect(await first.result()).toMatchObject({ total: 5, completed: 5 });
    await hasNothingToRetry(batch);
    await hasNothingToRetry(first);
    expect(batch.project.ledger).toHaveLength(8);
  });

  test('leaves out an item whose follow-up was terminated after its send: it counts as delivered', async () => {
    const project = newProject();
    project.addEndlessJob();
    const items = [{ projectId: project.id, jobId: 'job', prompt: 'x', ...FAST }];
    const batch = await operated.stack.followUps.startBatch({ id: project.id, items });
    const key = batchItemKey(project.id, 0);
    const followUp = workflowOf({ workflowId: followUpWorkflowId({ projectId: project.id, jobId: 'job', key }) });
    const state = async () => (await followUp.describe()).typedSearchAttributes.get(SearchAttribute.state);
    await eventually('it shows that its message is sent', async () => (await state()) === 'polling');
    await followUp.terminate('by hand');
    const { items: ended } = await batch.result();
    expect(ended[0]?.error).toMatchObject({ type: 'Terminated', delivered: 'yes' });
    await hasNothingToRetry(batch);
    expect(project.ledger).toHaveLength(1);
  });

  test(
    'is one batch if it is planned twice, and the next retry sends what the first did not',
    { tags: 'long' },
    async () => {
      const batch = await cancelledAfterThree();
      await batch.project.budget.pause();
      const plans = await Promise.all([batch.planRetry(), batch.planRetry({ only: 'failed' })]);
      const [first, same] = await Promise.all(plans.map((plan) => batch.retry(plan)));
      if (!first || !same) throw new Error('not started');
      expect([first.batchId, same.batchId]).toEqual(Array(2).fill(`${batch.batchId}-retry-1`));
      expect(first.alreadyStarted).toBe(!same.alreadyStarted);
      await eventually('its follow-ups wait', async () => (await first.status()).open === 5);
      await first.cancel();
      expect(await first.result()).toMatchObject({ errorsByType: { Cancelled: 5 } });
      await batch.project.budget.resume();
      const second = await first.retry(await first.planRetry());
      expect(second.batchId).toBe(`${batch.batchId}-retry-2`);
      expect(await second.result()).toMatchObject({ total: 5, completed: 5 });
      expect(batch.project.ledger).toHaveLength(8);
    },
  );

  test(
    'says how many items were never started if its batch was terminated while it started',
    { tags: 'long' },
    async () => {
      const { followUps } = operated.stack;
      const project = newProject();
      await project.budget.pause();
      const jobIds = Array.from({ length: 15_000 }, (_, index) => `j${index}`);
      const batch = await followUps.startBatch({ id: project.id, projectId: project.id, prompt: 'x', jobIds });
      await eventually('it has begun', async () => (await batch.parts().catch(() => [])).length > 0);
      await workflowOf(batch).terminate();
      let listed = 0;
      for await (const item of batch.list()) listed += Number(item.index >= 0);
      const { input, open, neverStarted } = await batch.planRetry({ only: 'failed' });
      expect(neverStarted).toBeGreaterThan(0);
      expect(neverStarted).toBe(15_000 - listed);
      expect(input.items).toHaveLength(listed - open);
      for await (const each of followUps.list({ batch: project.id })) await workflowOf(each).cancel();
    },
  );
});

test(
  'a batch with a used id sends no item whose follow-up a part of the old batch has started',
  { tags: 'long' },
  async () => {
    const old = await startHeld();
    const { batchId, project } = old;
    const oldPart = await partOf(old);
    await workflowOf(old).terminate('by hand');
    await deleteWorkflow(client(), old.workflowId);
    await isGone(() => old.describe());
    const items = makeItems(operated.stack, [batchId], 8, { ...FAST, prompt: 'another message' });
    const batch = await operated.stack.followUps.startBatch({ id: batchId, items });
    const result = await batch.result();
    expect(result).toMatchObject({ total: 8, completed: 0, errors: 8, unknown: 0, errorsByType: { NotStarted: 8 } });
    expect(result.items.every(({ error }) => error?.delivered === 'no')).toBe(true);
    await letAllGo(old);
    await project.deliveries(8);
    await workflowOf(oldPart).result();
    expect(project.ledger.map(({ prompt }) => prompt)).not.toContain('another message');
    expect(await (await batch.retry(await batch.planRetry())).result()).toMatchObject({ total: 8, completed: 8 });
    expect(project.ledger).toHaveLength(16);
  },
);

test('a batch that is cancelled while its follow-ups start sends nothing more', { tags: 'long' }, async () => {
  const { followUps } = operated.stack;
  const project = newProject();
  await project.budget.setLimit({ limit: 1, window: '1h' });
  const jobIds = Array.from({ length: 200 }, (_, index) => `job-${index}`);
  const input = { id: project.id, projectId: project.id, prompt: 'x', jobIds, maxOpen: 200, defaults: FAST };
  const batch = await followUps.startBatch(input);
  // The first one may have ended.
  await eventually('they start', async () => {
    const { open = 0, completed = 0 } = (await batch.status().catch(() => undefined)) ?? {};
    return open + completed === 200;
  });
  await batch.cancel();
  const result = await batch.result();
  expect(result).toMatchObject({ total: 200, cancelled: true });
  expect(result.completed + result.errors).toBe(200);
  await project.budget.setLimit({ limit: 100 });
  expect(project.ledger.length).toBeLessThanOrEqual(1);
  const query = `FollowUpBatchId = '${project.id}' AND ExecutionStatus = 'Running'`;
  await eventually('none runs', async () => (await client().workflow.count(query)).count === 0);
});
