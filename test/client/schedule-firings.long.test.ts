import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import type { ScheduleOverlap } from '../../src/client/index.js';
import { startDevServer } from '../../src/dev-server/index.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

const INTERVAL_MS = 2_000;
/** 300 follow-ups take two minutes on two cores. */
const OUTAGE_TIMEOUT_MS = 600_000;
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

const sentTo = ({ simulator }: Stack, projectId: string) =>
  simulator.ledger.filter((entry) => entry.projectId === projectId).map(({ jobId }) => jobId);

/** Runs a schedule until it has fired so often and its batches have ended. Returns when they ran, oldest first. */
async function runFor(overlap: ScheduleOverlap, firings: number) {
  const { schedules } = stack.followUps;
  const name = `${overlap}-${randomUUID().slice(0, 8)}`;
  const input = { projectId: name, prompt: 'Update the dependencies.', jobIds: ['job-1'], defaults: FAST };
  await schedules.create({ name, every: INTERVAL_MS, overlap, input });
  await eventually(`${name} has fired`, async () => (await schedules.describe(name)).counts.fired >= firings);
  await schedules.pause(name);
  const { spans, counts } = await eventually(`all batches of ${name} have ended`, async () => {
    const { recentFirings, counts } = await schedules.describe(name);
    const handles = recentFirings.map(({ batchId }) => stack.client.workflow.getHandle(`follow-up-batch/${batchId}`));
    const described = await Promise.all(handles.map((handle) => handle.describe()));
    const spans = described.map(({ startTime, closeTime }) => ({
      startMs: startTime.getTime(),
      endMs: closeTime?.getTime() ?? Infinity,
    }));
    // A firing that waits starts as soon as the running one has ended.
    const isOver = spans.every(({ endMs }) => endMs < Date.now() - INTERVAL_MS);
    return isOver ? { counts, spans: spans.reverse() } : undefined;
  });
  await schedules.delete(name);
  expect(spans).toHaveLength(counts.fired);
  expect(sentTo(stack, name)).toHaveLength(counts.fired);
  return { counts, pairs: spans.slice(1).map((next, index) => [spans[index] ?? next, next] as const) };
}

test.concurrent.each([
  ['skip', 3, 2],
  ['buffer-one', 4, 1],
] as const)(
  '%s: no two slow batches run at the same time, and due times are skipped',
  async (overlap, firings, skips) => {
    const { pairs, counts } = await runFor(overlap, firings);
    for (const [before, next] of pairs) expect(next.startMs).toBeGreaterThanOrEqual(before.endMs);
    expect(counts.skipped).toBeGreaterThanOrEqual(skips);
  },
);

test.concurrent('allow-all: every due time fires, whatever runs', async () => {
  const { pairs, counts } = await runFor('allow-all', 4);
  expect(counts.skipped).toBe(0);
  expect(pairs.some(([before, next]) => next.startMs < before.endMs)).toBe(true);
});

test(
  'a schedule of 300 items whose due time falls into an outage of Temporal runs once, and sends each item once',
  async () => {
    const directory = await mkdtemp(join(tmpdir(), 'schedule-outage-'));
    const dbFile = join(directory, 'temporal.db');
    let server = await startDevServer({ env: process.env, args: ['--db-filename', dbFile] });
    const { port } = server;
    const nightly = await startStack({
      address: server.address,
      simulator: { autoCreate: true, limiter: { kind: 'sliding', limit: 300, windowMs: 3_600_000 } },
      env: { FOLLOW_UP_BUDGET_LIMIT: '300' },
    });
    try {
      const { schedules } = nightly.followUps;
      const jobIds = Array.from({ length: 300 }, (_, index) => `job-${index}`);
      // Far enough ahead to stop the server before.
      const due = new Date(Math.ceil(Date.now() / 1_000 + 15) * 1_000);
      await schedules.create({
        name: 'nightly',
        every: '1d',
        offset: due.getTime() % 86_400_000,
        catchUpWindow: '10m',
        input: { projectId: 'nightly', prompt: 'Update the dependencies.', jobIds, defaults: FAST, maxOpen: 100 },
      });
      expect((await schedules.describe('nightly')).nextFirings[0]).toBe(due.toISOString());
      await server.kill();
      expect(Date.now()).toBeLessThan(due.getTime());
      await eventually('the due time has passed', () => Date.now() > due.getTime() + 1_000);
      server = await eventually('Temporal is back', () =>
        startDevServer({ env: process.env, port, args: ['--db-filename', dbFile] }),
      );
      const batchId = `nightly-${due.toISOString().slice(0, 19)}Z`;
      await eventually('the missed firing starts', async () => {
        return (await schedules.describe('nightly')).recentFirings[0]?.batchId === batchId;
      });
      expect(await nightly.followUps.batch(batchId).result()).toMatchObject({ total: 300, completed: 300, errors: 0 });
      expect(sentTo(nightly, 'nightly').sort()).toEqual(jobIds.sort());
      const { counts, runningBatchIds } = await schedules.describe('nightly');
      expect({ counts, runningBatchIds }).toEqual({ counts: { fired: 1, skipped: 0, missed: 0 }, runningBatchIds: [] });
    } finally {
      await nightly.stop();
      await server.stop();
      await rm(directory, { recursive: true });
    }
  },
  OUTAGE_TIMEOUT_MS,
);
