import { describe, expect, test } from 'vitest';
import { Batch } from '../../src/batch/batch.js';
import type { BatchStart } from '../../src/batch/batch-state.js';
import { jsonBytes, MAX_PART_ITEMS } from '../../src/batch/pack.js';
import { Part } from '../../src/batch/part.js';
import { MAX_RESULT_ITEMS } from '../../src/contract/index.js';
import type { PartInput, PartReport } from '../../src/protocol/index.js';

const SEALED: BatchStart = { batchId: 'b', maxOpen: 50, template: { lane: 'batch' }, sealed: true, startedAtMs: 0 };
const OPEN: BatchStart = { ...SEALED, sealed: false };
const COMPLETED = { status: 'completed', prLink: null } as const;
const FAILED = { status: 'failed', prLink: null } as const;
/** Most bytes of JSON in a payload or a state. */
const MAX_BYTES = 512 * 1_024;
/** Most bytes in a workflow task. */
const MAX_TASK_BYTES = 4 * 1_024 * 1_024;

/** Items for jobs of their own. `from`: the number of the first job. */
const itemsOf = (count: number, { prompt = 'go on', from = 0 } = {}) =>
  Array.from({ length: count }, (_, index) => ({ projectId: 'p', jobId: `job-${from + index}`, prompt }));

/** Starts parts until there is nothing left to start. Returns their inputs. */
function startInputs(batch: Batch, nowMs = 0): PartInput[] {
  const inputs = [];
  for (let input = batch.nextPart(nowMs); input; input = batch.nextPart(nowMs)) {
    batch.noteStarted();
    inputs.push(input);
  }
  return inputs;
}

const startParts = (batch: Batch, nowMs = 0): Part[] => startInputs(batch, nowMs).map((input) => new Part(input));

/** Starts all parts, and returns the first. */
function startFirst(batch: Batch, nowMs = 0): Part {
  const [part] = startParts(batch, nowMs);
  if (!part) throw new Error('There is no part to start');
  return part;
}

/** Gives the batch the reports of its parts, and the parts their orders. */
function exchange(batch: Batch, parts: readonly Part[], nowMs: number): void {
  for (const part of parts) batch.take(part.report(nowMs), nowMs);
  for (const { part, order } of batch.ordersToSend(nowMs)) parts[part]?.receive(order);
}

function endAll(part: Part, outcome: Parameters<Part['end']>[1]): void {
  for (const state of ['waiting', 'open'] as const) for (const place of part.positions(state)) part.end(place, outcome);
}

describe('a batch that is not sealed', () => {
  test('adds a piece once if it comes again with the same offset', () => {
    const batch = Batch.create(OPEN, itemsOf(2));
    expect(batch.add(itemsOf(3, { from: 2 }), 2, 'update-1')).toBe(5);
    expect(batch.add(itemsOf(3, { from: 2 }), 2, 'update-2')).toBe(5);
  });

  test('adds a piece once if it comes again with the same update id', () => {
    const batch = Batch.create(OPEN, itemsOf(2));
    expect(batch.add(itemsOf(1, { from: 2 }), undefined, 'update-1')).toBe(3);
    expect(batch.add(itemsOf(1, { from: 2 }), undefined, 'update-1')).toBe(3);
  });

  test('remembers the update ids of pieces in the state that it carries', () => {
    const batch = Batch.create(OPEN, itemsOf(2));
    batch.add(itemsOf(1, { from: 2 }), undefined, 'update-1');
    startParts(batch);
    const carried = new Batch(JSON.parse(JSON.stringify(batch.state)));
    expect(carried.add(itemsOf(1, { from: 2 }), undefined, 'update-1')).toBe(3);
  });

  test('accepts a piece that follows its items', () => {
    const batch = Batch.create(OPEN, itemsOf(6));
    expect(batch.issueWith(itemsOf(1), 6, 'update')).toBeUndefined();
  });

  test('refuses a piece that leaves a gap behind its items', () => {
    const batch = Batch.create(OPEN, itemsOf(6));
    expect(batch.issueWith(itemsOf(1), 7, 'update')).toMatchObject({
      field: 'offset',
      message: expect.stringContaining('at most 6'),
    });
  });

  test('refuses an offset that is not a whole number', () => {
    const batch = Batch.create(OPEN, itemsOf(6));
    const issue = { field: 'offset', message: 'must be a whole number' };
    expect(batch.issueWith(itemsOf(1), -1, 'update')).toEqual(issue);
    expect(batch.issueWith(itemsOf(1), 0.5, 'update')).toEqual(issue);
  });

  test('refuses a piece without items', () => {
    const batch = Batch.create(OPEN, itemsOf(6));
    expect(batch.issueWith([], undefined, 'update')).toMatchObject({
      field: 'items',
      message: expect.stringContaining('at least one item'),
    });
  });
});

describe('a sealed batch', () => {
  test('refuses another piece', () => {
    const batch = Batch.create(OPEN, itemsOf(6));
    batch.seal();
    expect(batch.issueWith(itemsOf(1), undefined, 'update')).toMatchObject({
      field: 'items',
      message: expect.stringContaining('sealed'),
    });
  });

  test('accepts a piece again by its offset', () => {
    const batch = Batch.create(OPEN, itemsOf(6));
    batch.seal();
    expect(batch.issueWith(itemsOf(1), 5, 'update')).toBeUndefined();
  });

  test('accepts a piece again by its update id', () => {
    const batch = Batch.create(OPEN, itemsOf(6));
    batch.add(itemsOf(1), undefined, 'update');
    batch.seal();
    expect(batch.issueWith(itemsOf(1), undefined, 'update')).toBeUndefined();
  });
});

describe('a large batch', () => {
  test.each([
    ['short prompts', 'go on', 100],
    ['prompts of 1,000 characters', 'x'.repeat(1_000), 190],
    ['prompts that JSON makes longer', '"\n'.repeat(100), 0],
  ])('packs 50,000 items with %s into parts within every limit', (_, prompt, leastParts) => {
    const batch = Batch.create(SEALED, []);
    const inputs: PartInput[] = [];
    for (let piece = 0; piece < 200; piece++) {
      batch.add(itemsOf(250, { prompt, from: piece * 250 }), piece * 250, `update-${piece}`);
      inputs.push(...startInputs(batch, piece));
    }
    expect(inputs.reduce((sum, input) => sum + input.items.length, 0)).toBe(50_000);
    expect(Math.max(...inputs.map((input) => input.items.length))).toBeLessThanOrEqual(MAX_PART_ITEMS);
    expect(Math.max(...inputs.map(jsonBytes))).toBeLessThan(MAX_BYTES);
    expect(jsonBytes(batch.state)).toBeLessThan(MAX_BYTES);
    expect(inputs.length).toBeGreaterThanOrEqual(leastParts);
    expect(batch.status().total).toBe(50_000);
  });

  test('packs items that come in one piece into parts that are each within a payload', () => {
    const batch = Batch.create(SEALED, itemsOf(1_500, { prompt: 'x'.repeat(1_000) }));
    const inputs = startInputs(batch);
    expect(inputs.reduce((sum, input) => sum + input.items.length, 0)).toBe(1_500);
    expect(Math.max(...inputs.map(jsonBytes))).toBeLessThan(MAX_BYTES);
  });

  test('packs items with a long template into parts that can start all of theirs in one workflow task', () => {
    const template = { prompt: 'x'.repeat(100_000) };
    const items = Array.from({ length: 100 }, (_, index) => ({ projectId: 'p', jobId: `job-${index}` }));
    const batch = Batch.create({ ...SEALED, template }, items);
    const sizes = startParts(batch).map((part) => jsonBytes(part.start()));
    expect(Math.max(...sizes)).toBeLessThan(MAX_TASK_BYTES);
  });

  /** 10,000 items have ended, each with an error as long as possible. `reports` are the last of the parts. */
  function batchOfLongErrors(): { batch: Batch; reports: PartReport[] } {
    const batch = Batch.create(SEALED, itemsOf(10_000));
    const error = { type: 'MessageRejected', message: 'm'.repeat(500), delivered: 'no' } as const;
    const reports = startParts(batch).map((part) => {
      endAll(part, { error });
      return part.report(1);
    });
    for (const report of reports) expect(batch.take(report, 1)).toBe(true);
    return { batch, reports };
  }

  test('stays within a payload even if every error is as long as possible', () => {
    const { batch, reports } = batchOfLongErrors();
    expect(Math.max(...reports.map(jsonBytes))).toBeLessThan(MAX_BYTES);
    expect(jsonBytes(batch.state)).toBeLessThan(MAX_BYTES);
    expect(jsonBytes(batch.result())).toBeLessThan(MAX_BYTES);
  });

  test('has only the first items in its result, which counts all', () => {
    const { batch } = batchOfLongErrors();
    expect(batch.hasEnded).toBe(true);
    const result = batch.result();
    expect(result).toMatchObject({ total: 10_000, errors: 10_000, errorsByType: { MessageRejected: 10_000 } });
    expect(result).toMatchObject({ truncated: true });
    expect(result.items).toHaveLength(MAX_RESULT_ITEMS);
  });

  test('names the part to ask for a page of items that it does not keep', () => {
    const { batch } = batchOfLongErrors();
    expect(batch.page(9_900, 500)).toMatchObject({ items: [], elsewhere: { workflowId: batch.idOf(19), count: 100 } });
  });
});

describe('a batch', () => {
  test('takes a report once', () => {
    const batch = Batch.create(SEALED, itemsOf(1));
    const part = startFirst(batch);
    endAll(part, COMPLETED);
    const report = part.report(5);
    expect(batch.take(report, 10)).toBe(true);
    expect(batch.take(report, 11)).toBe(false);
  });

  test('ends when all its parts have ended', () => {
    const batch = Batch.create(SEALED, itemsOf(600));
    const [first, second] = startParts(batch) as [Part, Part];
    endAll(first, COMPLETED);
    batch.take(first.report(5), 5);
    expect(batch.status()).toMatchObject({ completed: 500, waitingToStart: 100, ended: false });
    endAll(second, COMPLETED);
    batch.take(second.report(6), 6);
    expect(batch.status()).toMatchObject({ completed: 600, waitingToStart: 0, ended: true });
    expect(batch.hasEnded).toBe(true);
  });

  test('ends without a part that was terminated and whose items are lost', () => {
    const batch = Batch.create(SEALED, itemsOf(600));
    const [first, second] = startParts(batch) as [Part, Part];
    endAll(first, COMPLETED);
    exchange(batch, [first, second], 5);
    second.start();
    batch.take(second.report(6), 6);
    expect(batch.status()).toMatchObject({ completed: 500, open: 50 });
    expect(batch.startAgain(1, undefined, 30)).toBeUndefined();
    expect(batch.status()).toMatchObject({ completed: 500, open: 0 });
    expect(batch.hasEnded).toBe(true);
    expect(batch.result()).toMatchObject({ completed: 500, errors: 100, unknown: 100 });
    expect(batch.result().errorsByType).toEqual({ Terminated: 100 });
  });

  test('continues with a part that was terminated if somebody resets that part', () => {
    const batch = Batch.create(SEALED, itemsOf(100));
    const part = startFirst(batch);
    batch.startAgain(0, undefined, 30);
    expect(batch.hasEnded).toBe(true);
    expect(batch.take(part.report(40), 40)).toBe(true);
    expect(batch.status()).toMatchObject({ errors: 0, waitingToStart: 100, ended: false });
  });

  test('starts a terminated part again with its items', () => {
    const batch = Batch.create(SEALED, itemsOf(3));
    const [input] = startInputs(batch) as [PartInput];
    const part = new Part(input);
    part.end(1, COMPLETED);
    batch.take(part.report(5), 5);
    expect(batch.startAgain(0, input, 10)).toMatchObject({ part: 0, first: 0, again: 1, items: input.items });
  });

  test('ignores a report of the run of a part before it was started again', () => {
    const batch = Batch.create(SEALED, itemsOf(3));
    const [input] = startInputs(batch) as [PartInput];
    const part = new Part(input);
    batch.startAgain(0, input, 10);
    expect(batch.take(part.report(11), 11)).toBe(false);
  });

  test('gives up a part that was started again three times', () => {
    const batch = Batch.create(SEALED, itemsOf(3));
    const [input] = startInputs(batch) as [PartInput];
    const part = new Part(input);
    part.end(1, COMPLETED);
    batch.take(part.report(5), 5);
    expect(batch.startAgain(0, input, 10)).toBeDefined();
    expect(batch.startAgain(0, input, 15)).toBeDefined();
    expect(batch.startAgain(0, input, 16)).toBeDefined();
    expect(batch.startAgain(0, input, 17)).toBeUndefined();
    expect(batch.result()).toMatchObject({ completed: 1, errors: 2, unknown: 2 });
  });

  test('ignores the report of a part with other items', () => {
    const otherPart = startFirst(Batch.create(SEALED, itemsOf(2, { prompt: 'old' })), 5);
    const batch = Batch.create(SEALED, itemsOf(2, { prompt: 'new' }));
    startParts(batch, 5);
    expect(batch.take(otherPart.report(6), 6)).toBe(false);
  });

  test('recognizes a part of an earlier batch with the same id by its items', () => {
    const earlierPart = startFirst(Batch.create(SEALED, itemsOf(2, { prompt: 'old' })), 1);
    const batch = Batch.create(SEALED, itemsOf(2, { prompt: 'new' }));
    const part = startFirst(batch, 5);
    expect(batch.isStrange(earlierPart.report(7))).toBe(true);
    expect(batch.isStrange(part.report(7))).toBe(false);
  });

  test('recognizes a part of an earlier batch by a number that it does not have once it is sealed', () => {
    const batch = Batch.create(SEALED, itemsOf(2));
    const report = startFirst(batch, 5).report(8);
    expect(batch.isStrange({ ...report, part: 1 })).toBe(true);
    expect(Batch.create(OPEN, []).isStrange(report)).toBe(false);
  });

  /** The first of three parts has started, and the second is about to start: it may never exist. */
  function batchThatStartsPart(): Batch {
    const batch = Batch.create(SEALED, itemsOf(1_200));
    batch.nextPart(0);
    batch.noteStarted();
    batch.nextPart(0);
    return batch;
  }

  test('names only parts that have started', () => {
    const batch = batchThatStartsPart();
    expect(batch.partIds()).toEqual([batch.idOf(0)]);
    startParts(batch);
    expect(batch.partIds()).toEqual([batch.idOf(0), batch.idOf(1), batch.idOf(2)]);
  });

  test('shows a page of the items of a part when that part has started', () => {
    const batch = batchThatStartsPart();
    expect(batch.page(500, 10)).toEqual({ total: 1_200, offset: 500, items: [] });
    startParts(batch);
    expect(batch.page(500, 10)).toMatchObject({ elsewhere: { workflowId: batch.idOf(1), count: 500 } });
  });

  test('has handed its items out when its last part has started', () => {
    const batch = batchThatStartsPart();
    expect(batch.isHandedOut).toBe(false);
    batch.noteStarted();
    batch.nextPart(0);
    expect(batch.isHandedOut).toBe(false);
    batch.noteStarted();
    expect(batch.isHandedOut).toBe(true);
  });

  test('orders each part to cancel, once', () => {
    const batch = Batch.create(OPEN, itemsOf(10));
    startParts(batch);
    batch.cancel();
    expect(batch.ordersToSend(8)).toMatchObject([{ part: 0, order: { share: 0, cancel: true } }]);
    expect(batch.ordersToSend(9)).toEqual([]);
  });

  test('starts a part with the order to cancel if it was cancelled before', () => {
    const batch = Batch.create(OPEN, itemsOf(10));
    startParts(batch);
    batch.add(itemsOf(1, { from: 10 }), 10, 'update');
    batch.cancel();
    expect(batch.nextPart(9)?.order).toMatchObject({ cancel: true, share: 0 });
  });
});

describe('a batch that was reset', () => {
  /** A batch that was reset after its part had reported the ends of all items. */
  function resetBatch(): { batch: Batch; part: Part } {
    const part = startFirst(Batch.create(SEALED, itemsOf(2)));
    endAll(part, COMPLETED);
    part.noteReported(part.report(2));
    const batch = Batch.create(SEALED, itemsOf(2));
    startParts(batch, 3);
    return { batch, part };
  }

  test('receives the ends that its part had reported before when it asks for all', () => {
    const { batch, part } = resetBatch();
    part.receive(batch.askForAll(0, 4));
    expect(batch.take(part.report(6), 6)).toBe(true);
    expect(batch.result().items).toMatchObject([{ status: 'completed' }, { status: 'completed' }]);
    expect(batch.hasEnded).toBe(true);
  });

  test('ignores a report from before the part was asked for all, which lacks those ends', () => {
    const { batch, part } = resetBatch();
    const report = part.report(5);
    batch.askForAll(0, 4);
    expect(batch.take(report, 5)).toBe(false);
  });
});

describe('the canary of a batch', () => {
  /** 600 items in two parts, of which two are the canary. The first part has started both. */
  function batchWithCanary(): { batch: Batch; parts: Part[]; start: () => number[] } {
    const batch = Batch.create({ ...SEALED, canary: 2, maxFailures: 0, maxOpen: 500 }, itemsOf(600));
    const parts = startParts(batch);
    const start = () => parts.map((part) => part.start().length);
    expect(start()).toEqual([2, 0]);
    return { batch, parts, start };
  }

  /** Both items of the canary have completed. */
  function batchAfterCanary(): ReturnType<typeof batchWithCanary> {
    const { batch, parts, start } = batchWithCanary();
    parts[0]?.end(0, COMPLETED);
    parts[0]?.end(1, COMPLETED);
    exchange(batch, parts, 30);
    return { batch, parts, start };
  }

  test('holds the batch when it has ended', () => {
    const { batch, start } = batchAfterCanary();
    const reason = 'the canary has ended: 2 of 600 items';
    expect(batch.status().hold).toEqual({ name: 'canary', reason, at: '1970-01-01T00:00:00.030Z' });
    expect(start()).toEqual([0, 0]);
    expect(batch.canProceed).toBe(true);
  });

  test('lets the rest start when an operator continues the batch', () => {
    const { batch, parts, start } = batchAfterCanary();
    expect(batch.proceed()).toMatchObject({ name: 'canary' });
    expect(batch.canProceed).toBe(false);
    exchange(batch, parts, 40);
    exchange(batch, parts, 41);
    const [first = 0, second = 0] = start();
    expect(first + second).toBe(500);
  });

  test('remains when an operator continues a batch that a failure holds', () => {
    const { batch, parts, start } = batchWithCanary();
    parts[0]?.end(0, FAILED);
    exchange(batch, parts, 10);
    expect(batch.proceed()).toMatchObject({ name: 'max-failures' });
    exchange(batch, parts, 20);
    expect(batch.status().hold).toBeUndefined();
    expect(start()).toEqual([0, 0]);
    parts[0]?.end(1, COMPLETED);
    exchange(batch, parts, 30);
    expect(batch.status().hold).toMatchObject({ name: 'canary' });
  });

  test('does not hold a batch that has no other items', () => {
    const batch = Batch.create({ ...SEALED, canary: 2 }, itemsOf(2));
    const part = startFirst(batch);
    endAll(part, COMPLETED);
    exchange(batch, [part], 10);
    expect(batch.status().hold).toBeUndefined();
    expect(batch.hasEnded).toBe(true);
  });
});

describe('a batch of ten items', () => {
  const limits: [failures: number, maxFailures: number | string][] = [
    [2, 1],
    [3, '20%'],
    [1, 0],
  ];

  /** Lets items fail, from this one on. The batch is held after the last of them, and not before. */
  function failItems(batch: Batch, part: Part, { first, count }: { first: number; count: number }): void {
    for (let position = first; position < first + count; position++) {
      expect(batch.status().hold).toBeUndefined();
      part.end(position, FAILED);
      exchange(batch, [part], 10 * (position + 1));
    }
    expect(batch.status().hold).toMatchObject({ name: 'max-failures' });
  }

  test.each(limits)('is held at failure %i if %s may fail', (failures, maxFailures) => {
    const batch = Batch.create({ ...SEALED, maxFailures }, itemsOf(10));
    const part = startFirst(batch);
    failItems(batch, part, { first: 0, count: failures });
    expect(batch.status().hold?.reason).toBe(`${failures} of 10 items failed (${maxFailures} may)`);
    expect(part.start()).toEqual([]);
  });

  test.each(limits)(
    'is held again at failure %i after an operator continued it, if %s may fail',
    (failures, maxFailures) => {
      const batch = Batch.create({ ...SEALED, maxFailures }, itemsOf(10));
      const part = startFirst(batch);
      failItems(batch, part, { first: 0, count: failures });
      batch.proceed();
      exchange(batch, [part], 10 * failures + 1);
      failItems(batch, part, { first: failures, count: failures });
      expect(batch.status().hold?.reason).toBe(`${failures} of 10 items failed (${maxFailures} may)`);
      expect(part.start()).toEqual([]);
    },
  );

  test('does not count an item that was cancelled as a failure', () => {
    const batch = Batch.create({ ...SEALED, maxFailures: 0 }, itemsOf(10));
    const part = startFirst(batch);
    part.end(9, { error: { type: 'Cancelled', message: 'by hand', delivered: 'no' } });
    exchange(batch, [part], 10);
    expect(batch.status()).toMatchObject({ errors: 1 });
    expect(batch.status().hold).toBeUndefined();
    failItems(batch, part, { first: 0, count: 1 });
  });

  test('is no longer held when all its items have ended', () => {
    const batch = Batch.create({ ...SEALED, maxFailures: 0 }, itemsOf(10));
    const part = startFirst(batch);
    failItems(batch, part, { first: 0, count: 1 });
    endAll(part, COMPLETED);
    exchange(batch, [part], 20);
    expect(batch.status().hold).toBeUndefined();
    expect(batch.hasEnded).toBe(true);
  });

  test('is no longer held when it is cancelled', () => {
    const batch = Batch.create({ ...SEALED, maxFailures: 0, canary: 3 }, itemsOf(10));
    const part = startFirst(batch);
    part.end(0, FAILED);
    exchange(batch, [part], 10);
    expect(batch.status().hold).toMatchObject({ name: 'max-failures' });
    batch.cancel();
    exchange(batch, [part], 11);
    expect(batch.status().hold).toBeUndefined();
    expect(batch.canProceed).toBe(false);
    expect(part.order.cancel).toBe(true);
  });
});
