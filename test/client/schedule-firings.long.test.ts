import { randomUUID } from 'node:crypto';
import { msToTs } from '@temporalio/common/lib/time.js';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import type { Firing, FiringOutcome, ScheduleHandle, ScheduleOverlap } from '../../src/client/index.js';
import { readRunStart } from '../../src/temporal/run-start.js';
import { batchItemKey, followUpWorkflowId } from '../../src/contract/index.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

const INTERVAL_MS = 2_000;
/** An agent's turn. A batch takes longer than the interval, so firings overlap. */
const TURN_MS = 2_500;
let stack: Stack;

beforeAll(async () => {
  stack = await startStack({
    address: inject('temporalAddress'),
    simulator: { autoCreate: true, turn: { minMs: TURN_MS, maxMs: TURN_MS } },
  });
});
afterAll(() => stack.stop());

const newName = (what: string) => `${what}-${randomUUID().slice(0, 8)}`;
const ledgerOf = (projectId: string) => stack.simulator.ledger.filter((entry) => entry.projectId === projectId);

/** Creates a schedule. Its project has the same name. */
async function create(name: string, overlap: ScheduleOverlap, everyMs: number): Promise<ScheduleHandle> {
  const input = { projectId: name, prompt: 'Update the dependencies.', jobIds: ['job-1'], defaults: FAST };
  return stack.followUps.schedules.create({ name, every: everyMs, overlap, input });
}

/** When the batch of a firing ran. */
async function spanOf({ workflowId }: Firing): Promise<{ startMs: number; endMs: number }> {
  const { startTime, closeTime } = await stack.client.workflow.getHandle(workflowId).describe();
  return { startMs: startTime.getTime(), endMs: closeTime?.getTime() ?? NaN };
}

/** Lets a schedule fire, then waits until its batches have ended. Returns them oldest first. */
async function runFor(schedule: ScheduleHandle, firings: number) {
  await eventually(
    `${schedule.name} has fired ${firings} times`,
    async () => (await schedule.describe()).counts.fired >= firings,
  );
  await schedule.pause();
  const outcomes = await eventually(`all of ${schedule.name} has ended`, async () => {
    const { buffered, recentFirings } = await schedule.describe();
    const all = await stack.followUps.schedules.outcomes(recentFirings);
    return buffered === 0 && all.every(({ status }) => status === 'completed') ? all.reverse() : undefined;
  });
  const { counts } = await schedule.describe();
  await schedule.delete();
  expect(outcomes).toHaveLength(counts.fired);
  expectOneMessageEach(schedule.name, outcomes);
  return { outcomes, counts, spans: await Promise.all(outcomes.map(spanOf)) };
}

/** Expects that every firing has sent its message once. */
function expectOneMessageEach(projectId: string, outcomes: readonly FiringOutcome[]): void {
  for (const { counts } of outcomes) expect(counts).toMatchObject({ total: 1, completed: 1, errors: 0 });
  expect(ledgerOf(projectId)).toHaveLength(outcomes.length);
  expect(new Set(outcomes.map(({ batchId }) => batchId)).size).toBe(outcomes.length);
}

const pairsOf = <T>(list: readonly T[]) => list.slice(1).map((next, index) => [list[index] as T, next] as const);

test.concurrent('skip: while a slow batch runs, no other starts, and due times are skipped', async () => {
  const { spans, counts } = await runFor(await create(newName('skip'), 'skip', INTERVAL_MS), 3);
  for (const [before, next] of pairsOf(spans)) expect(next.startMs).toBeGreaterThanOrEqual(before.endMs);
  expect(counts.skipped).toBeGreaterThanOrEqual(2);
});

test.concurrent('buffer-one: one due time waits for the slow batch, the others are skipped', async () => {
  const { spans, counts, outcomes } = await runFor(await create(newName('buffer'), 'buffer-one', INTERVAL_MS), 4);
  for (const [before, next] of pairsOf(spans)) expect(next.startMs).toBeGreaterThanOrEqual(before.endMs);
  const waited = outcomes
    .slice(1)
    .filter(({ scheduledAt }, index) => Date.parse(scheduledAt) < (spans[index]?.endMs ?? 0));
  expect(waited.length).toBeGreaterThanOrEqual(2);
  expect(counts.skipped).toBeGreaterThanOrEqual(1);
});

test.concurrent('allow-all: every due time fires, whatever runs', async () => {
  const { spans, counts, outcomes } = await runFor(await create(newName('allow'), 'allow-all', INTERVAL_MS), 4);
  expect(counts.skipped).toBe(0);
  const due = outcomes.map(({ scheduledAt }) => Date.parse(scheduledAt));
  for (const [before, next] of pairsOf(due)) expect(next - before).toBe(INTERVAL_MS);
  expect(pairsOf(spans).some(([before, next]) => next.startMs < before.endMs)).toBe(true);
});

test.concurrent(
  'a trigger runs a batch in the batch lane, and its outcome is known while it runs and afterwards',
  async () => {
    const name = newName('trigger');
    const schedule = await create(name, 'skip', 31_536_000_000);
    const { outcome, batchId } = await schedule.trigger();
    expect(outcome).toBe('started');
    const outcomes = async () => stack.followUps.schedules.outcomes((await schedule.describe()).recentFirings);
    await eventually('it is reported while it runs', async () => {
      const [firing] = await outcomes();
      return firing?.status === 'running' && firing.counts?.total === 1;
    });
    const [ended] = await eventually('it has ended', async () => {
      const all = await outcomes();
      return all[0]?.status === 'completed' ? all : undefined;
    });
    expect(ended).toMatchObject({ batchId, counts: { total: 1, completed: 1, failed: 0, errors: 0, unknown: 0 } });
    const childId = followUpWorkflowId({ projectId: name, jobId: 'job-1', key: batchItemKey(batchId, 0) });
    expect(await readRunStart(stack.client, childId)).toMatchObject([{ lane: 'batch', jobId: 'job-1' }]);

    // Temporal itself fires again for the same time. The batch runs once more, with the same follow-ups.
    const batch = stack.client.workflow.getHandle(`follow-up-batch/${batchId}`);
    const firstRunId = (await batch.describe()).runId;
    const dueAt = new Date(batchId.slice(name.length + 1));
    await stack.client.workflowService.patchSchedule({
      namespace: stack.namespace,
      scheduleId: name,
      requestId: randomUUID(),
      patch: { triggerImmediately: { scheduledTime: msToTs(dueAt.getTime()) } },
    });
    await eventually('the same batch runs once more', async () => (await batch.describe()).runId !== firstRunId);
    await batch.result();
    expect(ledgerOf(name)).toHaveLength(1);
    await schedule.delete();
  },
);
