import { describe, expect, test } from 'vitest';
import { Batch } from '../../src/batch/batch.js';
import type { BatchStart } from '../../src/batch/batch-state.js';
import { jsonBytes, MAX_PART_ITEMS } from '../../src/batch/pack.js';
import { Part } from '../../src/batch/part.js';
import type { PartInput } from '../../src/protocol/index.js';

const START: BatchStart = { batchId: 'b', maxOpen: 50, template: { lane: 'batch' }, sealed: true, startedAtMs: 0 };
const OPEN = { ...START, sealed: false };
const DONE = { status: 'completed', prLink: null } as const;
const FAILED = { status: 'failed', prLink: null } as const;
const items = (count: number, prompt = 'go on', from = 0) =>
  Array.from({ length: count }, (_, index) => ({ projectId: 'p', jobId: `job-${from + index}`, prompt }));
const LIMIT_BYTES = 512 * 1_024;

/** Starts parts until there is nothing left to start. */
function startParts(batch: Batch, nowMs = 0): { part: Part; input: PartInput }[] {
  const parts = [];
  for (let input = batch.nextPart(nowMs); input; input = batch.nextPart(nowMs)) {
    batch.noteStarted();
    parts.push({ part: new Part(input), input });
  }
  return parts;
}

/** Gives the parts their orders, and the batch their reports. */
function exchange(batch: Batch, parts: readonly Part[], nowMs: number): void {
  for (const part of parts) batch.take(part.report(nowMs), nowMs);
  for (const { part, order } of batch.ordersToSend(nowMs)) parts[part]?.receive(order);
}

function endAll(part: Part, outcome: Parameters<Part['end']>[1]): void {
  for (const state of ['waiting', 'open'] as const) for (const place of part.positions(state)) part.end(place, outcome);
}

describe('a batch', () => {
  test('accepts a piece once, by its offset or by the id of its update, until it is sealed', () => {
    const batch = Batch.create(OPEN, items(2));
    const more = [items(3, 'x', 2), items(1, 'x', 5)] as const;
    expect(['u1', 'u2'].map((id) => batch.add(more[0], 2, id))).toEqual([5, 5]);
    expect(['u3', 'u3'].map((id) => batch.add(more[1], undefined, id))).toEqual([6, 6]);
    const carried = new Batch((startParts(batch), JSON.parse(JSON.stringify(batch.state))));
    expect(carried.add(more[1], undefined, 'u3')).toBe(6);
    const issueWith = (given: unknown, offset?: unknown) => carried.issueWith(given, offset, 'u4');
    expect(issueWith(items(1), 7)).toMatchObject({ field: 'offset', message: expect.stringContaining('at most 6') });
    expect(issueWith(items(1), -1)).toMatchObject({ field: 'offset', message: 'must be a whole number' });
    expect(issueWith([])).toMatchObject({ field: 'items', message: expect.stringContaining('at least one item') });
    expect(issueWith(items(1), 6)).toBeUndefined();
    carried.seal();
    expect(issueWith(items(1))).toMatchObject({ field: 'items', message: expect.stringContaining('sealed') });
    expect([issueWith(items(1), 5), carried.issueWith(items(1), undefined, 'u3')]).toEqual([undefined, undefined]);
  });

  test.each([
    ['go on', 100],
    ['x'.repeat(1_000), 190],
    ['"\n'.repeat(100), 0],
  ])('packs 50,000 items into parts within every limit (%#)', (prompt, least) => {
    const batch = Batch.create(START, []);
    const inputs = Array.from({ length: 200 }, (_, piece) => {
      batch.add(items(250, prompt, piece * 250), piece * 250, `u${piece}`);
      return startParts(batch, piece).map(({ input }) => input);
    }).flat();
    expect(inputs.reduce((sum, input) => sum + input.items.length, 0)).toBe(50_000);
    expect(Math.max(...inputs.map((input) => input.items.length))).toBeLessThanOrEqual(MAX_PART_ITEMS);
    expect(Math.max(...inputs.map(jsonBytes), jsonBytes(batch.state))).toBeLessThan(LIMIT_BYTES);
    expect(inputs.length).toBeGreaterThanOrEqual(least);
    expect(batch.status().total).toBe(50_000);
  });

  test('fits into a payload even if every error is as long as possible, and then names the part to ask', () => {
    const batch = Batch.create(START, items(10_000));
    const error = { type: 'MessageRejected', message: 'm'.repeat(500), delivered: 'no' } as const;
    for (const { part } of startParts(batch)) {
      endAll(part, { error });
      expect(jsonBytes(part.report(1))).toBeLessThan(LIMIT_BYTES);
      expect(batch.take(part.report(2), 1)).toBe(true);
    }
    expect(jsonBytes(batch.state)).toBeLessThan(LIMIT_BYTES);
    expect(batch.hasEnded).toBe(true);
    const result = batch.result();
    expect(result).toMatchObject({ total: 10_000, errors: 10_000, errorsByType: { MessageRejected: 10_000 } });
    expect(result).toMatchObject({ truncated: true });
    expect(result.items).toHaveLength(500);
    expect(jsonBytes(result)).toBeLessThan(LIMIT_BYTES);
    const page = batch.page(9_900, 500);
    expect(page).toMatchObject({ items: [], elsewhere: { workflowId: batch.idOf(19), count: 100 } });
  });

  test('ends when every part has ended, and takes no report twice', () => {
    const batch = Batch.create(START, items(600));
    const [first, second] = startParts(batch);
    endAll(first!.part, DONE);
    const report = first!.part.report(5);
    expect(batch.take(report, 10)).toBe(true);
    expect(batch.take(report, 11)).toBe(false);
    expect(batch.status()).toMatchObject({ completed: 500, waitingToStart: 100, ended: false });
    batch.startAgain(1, undefined, 30);
    expect(batch.hasEnded).toBe(true);
    expect(batch.result()).toMatchObject({ completed: 500, errors: 100, unknown: 100 });
    expect(batch.result().errorsByType).toEqual({ Terminated: 100 });
    // It was not lost: somebody has reset it.
    expect(batch.take(second!.part.report(40), 40)).toBe(true);
    expect(batch.status()).toMatchObject({ errors: 0, waitingToStart: 100, ended: false });
  });

  test('starts a part again that was cut off, up to three times', () => {
    const batch = Batch.create(START, items(3));
    const { part, input } = startParts(batch)[0]!;
    part.end(1, DONE);
    batch.take(part.report(5), 5);
    expect(batch.startAgain(0, input, 10)).toMatchObject({ part: 0, first: 0, again: 1, items: input.items });
    expect(batch.take(part.report(11), 11)).toBe(false);
    expect([15, 16, 17].map((nowMs) => batch.startAgain(0, input, nowMs) !== undefined)).toEqual([true, true, false]);
    expect(batch.result()).toMatchObject({ completed: 1, errors: 2, unknown: 2 });
  });

  test('knows the parts of an earlier batch with its id by their items', () => {
    const { part: old } = startParts(Batch.create(START, items(2, 'old')), 1)[0]!;
    const batch = Batch.create(START, items(2, 'new'));
    const { part } = startParts(batch, 5)[0]!;
    expect(batch.take(old.report(6), 6)).toBe(false);
    expect(batch.isStrange(old.report(7))).toBe(true);
    expect(batch.isStrange(part.report(7))).toBe(false);
    expect(batch.isStrange({ ...part.report(8), part: 1 })).toBe(true);
    expect(Batch.create(OPEN, []).isStrange(part.report(9))).toBe(false);
  });

  test('names only the parts that have started: one that is about to start may never exist', () => {
    const batch = Batch.create(START, items(1_200));
    batch.nextPart(0);
    batch.noteStarted();
    batch.nextPart(0);
    expect(batch.partIds()).toEqual([batch.idOf(0)]);
    expect(batch.page(500, 10)).toEqual({ total: 1_200, offset: 500, items: [] });
    expect(batch.isHandedOut).toBe(false);
    startParts(batch);
    expect(batch.partIds()).toEqual([batch.idOf(0), batch.idOf(1), batch.idOf(2)]);
    expect(batch.page(500, 10)).toMatchObject({ elsewhere: { workflowId: batch.idOf(1), count: 500 } });
    expect(batch.isHandedOut).toBe(true);
  });

  test('that was reset makes its part report everything again', () => {
    const { part } = startParts(Batch.create(START, items(2)))[0]!;
    endAll(part, DONE);
    part.noteReported(part.report(2));
    const reset = Batch.create(START, items(2));
    startParts(reset, 3);
    const order = reset.askForAll(0, 4);
    // A report that left before the part got the order. It lacks the ends that were reported before.
    expect(reset.take(part.report(5), 5)).toBe(false);
    part.receive(order);
    expect(reset.take(part.report(6), 6)).toBe(true);
    expect(reset.result().items.map(({ status }) => status)).toEqual(['completed', 'completed']);
    expect(reset.hasEnded).toBe(true);
  });

  test('sends a cancel to every part, even those that are started later', () => {
    const batch = Batch.create(OPEN, items(10));
    startParts(batch);
    batch.add(items(1, 'x', 10), 10, 'u');
    batch.cancel();
    expect(batch.ordersToSend(8)).toMatchObject([{ part: 0, order: { share: 0, cancel: true } }]);
    expect(batch.ordersToSend(9)).toEqual([]);
    expect(batch.nextPart(9)?.order).toMatchObject({ cancel: true, share: 0 });
  });
});

describe('the brake of a batch', () => {
  test('holds for failures, then once the canary has ended, and starts the rest when an operator continues it', () => {
    const batch = Batch.create({ ...START, canary: 2, maxFailures: 0, maxOpen: 500 }, items(600));
    const parts = startParts(batch).map(({ part }) => part);
    const started = () => parts.map((part) => part.start().length);
    expect(started()).toEqual([2, 0]);
    parts[0]!.end(0, FAILED);
    exchange(batch, parts, 10);
    expect(batch.proceed()).toMatchObject({ name: 'max-failures' });
    exchange(batch, parts, 20);
    expect([batch.status().hold, started()]).toEqual([undefined, [0, 0]]);
    parts[0]!.end(1, DONE);
    exchange(batch, parts, 30);
    const hold = { name: 'canary', reason: 'the canary has ended: 2 of 600 items', at: '1970-01-01T00:00:00.030Z' };
    expect([batch.status().hold, started(), batch.canProceed]).toEqual([hold, [0, 0], true]);
    expect(batch.proceed()).toMatchObject({ name: 'canary' });
    expect(batch.canProceed).toBe(false);
    exchange(batch, parts, 40);
    exchange(batch, parts, 41);
    expect(started().reduce((sum, count) => sum + count)).toBe(500);
  });

  test.each([
    [1, 2],
    ['20%', 3],
    [0, 1],
  ])('of at most %s failures holds a batch of ten at failure %i, and counts from 0 after it continued', (most, at) => {
    const batch = Batch.create({ ...START, maxFailures: most }, items(10));
    const { part } = startParts(batch)[0]!;
    part.end(9, { error: { type: 'Cancelled', message: 'by hand', delivered: 'no' } });
    for (let round = 0; round < 2; round++) {
      for (let failure = 1; failure <= at; failure++) {
        expect(batch.status().hold).toBeUndefined();
        part.end(round * at + failure - 1, FAILED);
        exchange(batch, [part], 10 * (round * at + failure));
      }
      expect(batch.status().hold).toMatchObject({
        name: 'max-failures',
        reason: `${at} of 10 items failed (${most} may)`,
      });
      expect(part.start()).toEqual([]);
      batch.proceed();
      exchange(batch, [part], 10 * (round * at + at) + 1);
    }
  });

  test('ends with a cancel, and after a canary that is the whole list', () => {
    const batch = Batch.create({ ...START, maxFailures: 0, canary: 3 }, items(3));
    const parts = startParts(batch).map(({ part }) => part);
    parts[0]!.end(0, FAILED);
    exchange(batch, parts, 10);
    expect(batch.status().hold).toBeDefined();
    batch.cancel();
    exchange(batch, parts, 11);
    expect([batch.status().hold, batch.canProceed, parts[0]!.order.cancel]).toEqual([undefined, false, true]);
    const whole = Batch.create({ ...START, canary: 2 }, items(2));
    const { part } = startParts(whole)[0]!;
    endAll(part, DONE);
    exchange(whole, [part], 10);
    expect([whole.status().hold, whole.hasEnded]).toEqual([undefined, true]);
  });
});
