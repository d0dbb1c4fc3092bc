import { expect, test } from 'vitest';
import { PartFlow, type PartPort } from '../../src/batch/part-flow.js';
import type { ItemOutcome } from '../../src/contract/index.js';
import type { FoundItem, PartInput, PartOrder } from '../../src/protocol/index.js';

const ORDER: PartOrder = { number: 1, share: 2 };
const items = [1, 2].map((n) => ({ projectId: 'p', jobId: `job-${n}`, prompt: 'go on' }));
const GONE = { error: { type: 'Terminated', message: 'Temporal no longer keeps the follow-up', delivered: 'unknown' } };

const idOf = (n: number) => `follow-up/p/job-${n}/b:${n - 1}`;

/** A part of two items on a Temporal of which the test decides what it knows. Its time is what it asked to be woken at. */
function startPart(what: Partial<PartInput> = {}, ...found: [workflowId: string, FoundItem][]) {
  const known = new Map(found);
  const [started, cancelled]: [string[], string[]] = [[], []];
  const ends = new Map<string, (outcome: ItemOutcome) => void>();
  let [nowMs, wakeAtMs] = [0, Infinity];
  const port: PartPort = {
    nowMs: () => nowMs,
    condition: async (isOver) => {
      while (!isOver()) await new Promise(setImmediate);
    },
    wakeAt: (atMs) => (wakeAtMs = Math.min(wakeAtMs, atMs)),
    runFollowUp: ({ workflowId }) => {
      started.push(workflowId);
      return new Promise((resolve) => ends.set(workflowId, resolve));
    },
    cancelFollowUp: async (workflowId) => cancelled.push(workflowId),
    findItems: async (asked) => asked.items.map(({ workflowId }) => known.get(workflowId) ?? {}),
    reportToBatch: async () => true,
    show: () => undefined,
  };
  const input = { batchId: 'b', part: 0, hash: 'h', first: 0, template: {}, items, order: ORDER, ...what };
  const flow = new PartFlow(input, port);
  const ended = flow.run();
  const pass = async () => {
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  };
  const outcomes = () => flow.page({ offset: 0, limit: 10 }).items.map(({ status, error }) => status ?? error);
  return {
    ...{ flow, known, started, cancelled, pass, outcomes, ended, nowMs: () => nowMs },
    /** The next timer rings. */
    async ring(): Promise<void> {
      [nowMs, wakeAtMs] = [wakeAtMs, Infinity];
      flow.wake();
      await pass();
    },
  };
}

test('a part cancels a follow-up again that was about to start when the first request came', async () => {
  const { flow, known, started, cancelled, pass, ring } = startPart();
  await pass();
  expect(started).toEqual([idOf(1), idOf(2)]);
  flow.receive({ ...ORDER, number: 2, share: 0, cancel: true });
  await pass();
  expect(cancelled).toEqual([idOf(1), idOf(2)]);
  known.set(idOf(2), { isOpen: true });
  while (cancelled.length === 2) await ring();
  expect(cancelled.slice(2)).toContain(idOf(2));
});

test('a part that is cancelled withdraws what waits, and leaves what is open to its end', async () => {
  const { flow, known, started, pass, outcomes } = startPart({ order: { ...ORDER, share: 1 } });
  await pass();
  expect(started).toEqual([idOf(1)]);
  known.set(idOf(1), { isOpen: true });
  flow.receive({ number: 2, share: 0, cancel: true });
  await pass();
  const message = 'The batch was cancelled before it was started';
  expect(outcomes()).toEqual([undefined, { type: 'Cancelled', message, delivered: 'no' }]);
});

test('a part gives up a follow-up only after Temporal has not known it for a minute', async () => {
  const { flow, known, pass, outcomes, ring, nowMs } = startPart();
  await pass();
  flow.receive({ ...ORDER, number: 2, share: 0, cancel: true });
  known.set(idOf(1), { isOpen: true });
  await pass();
  const seen = new Set<unknown>();
  while (outcomes()[1] === undefined) {
    await ring();
    seen.add(outcomes()[0]);
  }
  expect(outcomes()[1]).toEqual(GONE.error);
  expect(nowMs()).toBeGreaterThanOrEqual(60_000);
  expect([...seen]).toEqual([undefined]);
});

test.each([
  ['starts nothing if Temporal has forgotten what had begun', [], [], [GONE.error, GONE.error]],
  ['adopts what runs, and starts what had not begun', [idOf(1)], [idOf(2)], [undefined, undefined]],
])('a part that is started again %s', async (_, open, starts, ends) => {
  const known = open.map((id): [string, FoundItem] => [id, { isOpen: true }]);
  const { started, pass, outcomes, ring, nowMs } = startPart({ again: 1 }, ...known);
  await pass();
  while (nowMs() < 60_000) await ring();
  expect([started, outcomes()]).toEqual([starts, ends]);
});

test('a part that is started again waits for a follow-up that its earlier run was about to start', async () => {
  const { known, started, pass, outcomes, ring } = startPart({ again: 1 });
  await pass();
  await ring();
  known.set(idOf(1), { isOpen: true });
  await ring();
  expect([started, outcomes()]).toEqual([[idOf(2)], [undefined, undefined]]);
});

test('a part that is started again and cancelled cancels what it finds at once, and withdraws nothing for a minute', async () => {
  const input = { again: 1, order: { ...ORDER, share: 1 } };
  const { flow, known, cancelled, pass, outcomes, ring, nowMs } = startPart(input, [idOf(1), { isOpen: true }]);
  await pass();
  flow.receive({ number: 2, share: 0, cancel: true });
  await pass();
  expect([cancelled, outcomes()]).toEqual([[idOf(1)], [undefined, undefined]]);
  // Its batch did not know of this one.
  while (nowMs() < 20_000) await ring();
  expect(outcomes()).toEqual([undefined, undefined]);
  known.set(idOf(2), { isOpen: true });
  while (!cancelled.includes(idOf(2))) await ring();
  expect(outcomes()).toEqual([undefined, undefined]);
});

test('a part ends when all its items have an outcome, although it never receives their ends', async () => {
  const { known, started, pass, outcomes, ring, ended } = startPart();
  await pass();
  for (const id of started) known.set(id, { outcome: { status: 'completed', prLink: null } });
  while (outcomes().includes(undefined)) await ring();
  await expect(ended).resolves.toMatchObject({ completed: 2 });
});
