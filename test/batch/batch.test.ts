import { describe, expect, test } from 'vitest';
import { Batch } from '../../src/batch/batch.js';
import { describeBatch } from '../../src/batch/details.js';
import { jsonBytes, MAX_PART_ITEMS } from '../../src/batch/pack.js';
import { Part } from '../../src/batch/part.js';

const START = { batchId: 'b', maxOpen: 50, template: { lane: 'batch' }, sealed: false, startedAtMs: 0 };
const items = (count: number, prompt = 'go on', from = 0) =>
  Array.from({ length: count }, (_, index) => ({ projectId: 'p', jobId: `job-${from + index}`, prompt }));
const LIMIT_BYTES = 512 * 1_024;

/** Starts parts until there is nothing left to start. */
function startParts(batch: Batch, nowMs = 0): Part[] {
  const parts: Part[] = [];
  while (batch.hasBacklog) parts.push(Part.create(batch.nextPart(nowMs), nowMs));
  return parts;
}

function endAll(part: Part, nowMs: number, outcome: Parameters<Part['end']>[1]): void {
  for (const position of part.state.items.keys()) part.end(position, outcome);
  part.state.reports = Math.max(part.state.reports, nowMs);
}

describe('a batch', () => {
  test('accepts a piece once, by its offset or by the id of its update', () => {
    const batch = Batch.create({ ...START, items: items(2) });
    expect(batch.add(items(3, 'x', 2), 2, 'u1')).toBe(5);
    expect(batch.add(items(3, 'x', 2), 2, 'u2')).toBe(5);
    expect(batch.add(items(1, 'x', 5), undefined, 'u3')).toBe(6);
    expect(batch.add(items(1, 'x', 5), undefined, 'u3')).toBe(6);
    const carried = new Batch((startParts(batch), JSON.parse(JSON.stringify(batch.carry()))));
    expect(carried.knows('u3')).toBe(true);
    expect(carried.knows('u4')).toBe(false);
    expect(carried.add(items(1, 'x', 5), undefined, 'u3')).toBe(6);
    expect(carried.issueWith(items(1), 7)).toContain('offset must be at most 6');
    expect(carried.issueWith(items(1), 5)).toBeUndefined();
    carried.seal();
    expect(carried.issueWith(items(1))).toContain('sealed');
    expect(carried.issueWith(items(1), 5)).toBeUndefined();
  });

  test('packs 10,000 items, small or large, into parts within every limit', () => {
    for (const [prompt, least] of [
      ['go on', 40],
      ['x'.repeat(8_000), 190],
      ['"\n'.repeat(1_000), 0],
    ] as const) {
      const batch = Batch.create({ ...START, sealed: true, items: [] });
      const parts: Part[] = [];
      for (let from = 0; from < 10_000; from += 10) {
        batch.add(items(10, prompt, from), from, `u${from}`);
        if (batch.isNextPartFull && from % 500 === 490) parts.push(...startParts(batch));
      }
      parts.push(...startParts(batch));
      expect(parts.length).toBeGreaterThanOrEqual(least);
      expect(parts.reduce((sum, part) => sum + part.state.items.length, 0)).toBe(10_000);
      for (const part of parts) {
        expect(part.state.items.length).toBeLessThanOrEqual(MAX_PART_ITEMS);
        expect(jsonBytes(part.state)).toBeLessThan(LIMIT_BYTES);
      }
      expect(jsonBytes(batch.carry())).toBeLessThan(LIMIT_BYTES);
      expect(batch.status().total).toBe(10_000);
    }
  });

  test('fits into a payload even if every error is as long as possible, and then names the part to ask', () => {
    const batch = Batch.create({ ...START, sealed: true, items: [] });
    batch.add(items(10_000), 0, 'u');
    const parts = startParts(batch);
    const error = { type: 'MessageRejected', message: 'm'.repeat(500), delivered: 'no' } as const;
    for (const part of parts) {
      endAll(part, 1, { error });
      expect(jsonBytes(part.state)).toBeLessThan(LIMIT_BYTES);
      expect(batch.take(part.report(1), 1)).toBe(true);
    }
    expect(jsonBytes(batch.carry())).toBeLessThan(LIMIT_BYTES);
    expect(batch.hasEnded).toBe(true);
    const result = batch.result();
    expect(result).toMatchObject({ total: 10_000, errors: 10_000, errorsByType: { MessageRejected: 10_000 } });
    expect(result).toMatchObject({ truncated: true });
    expect(result.items).toHaveLength(500);
    expect(jsonBytes(result)).toBeLessThan(LIMIT_BYTES);
    const page = batch.page(9_900, 500);
    expect(page).toMatchObject({ items: [], elsewhere: { workflowId: 'follow-up-batch/b/39', count: 100 } });
  });

  test('ends when every part has ended, and takes no report twice', () => {
    const batch = Batch.create({ ...START, sealed: true, items: items(300) });
    const [first, second] = startParts(batch) as [Part, Part];
    endAll(first, 5, { status: 'completed', prLink: null });
    const report = first.report(5);
    expect(batch.take(report, 10)).toBe(true);
    expect(batch.take(report, 11)).toBe(false);
    expect(batch.status()).toMatchObject({ completed: 250, waitingToStart: 50, ended: false });
    batch.noteGone(1, { ended: [] }, 30);
    batch.noteGone(1, { ended: [] }, 31);
    expect(batch.take(second.report(40), 40)).toBe(false);
    expect(batch.hasEnded).toBe(true);
    expect(batch.result()).toMatchObject({ completed: 250, errors: 50, unknown: 50, errorsByType: { Terminated: 50 } });
    expect(batch.page(249, 2).items.map(({ status, error }) => status ?? error?.type)).toEqual([
      'completed',
      'Terminated',
    ]);
  });

  test('starts a terminated part again for the items that have not ended, up to three times', () => {
    const batch = Batch.create({ ...START, sealed: true, items: items(3) });
    const [first] = startParts(batch) as [Part];
    first.end(1, { status: 'completed', prLink: null });
    batch.take(first.report(5), 5);
    const rest = { first: 0, template: START.template, items: items(3) };
    const ended = [
      { index: 0, error: { type: 'Terminated', message: 'gone', delivered: 'yes' } } as const,
      { index: 1, status: 'completed', prLink: null } as const,
    ];
    const input = batch.noteGone(0, { ended, rest }, 10);
    expect(input).toMatchObject({ part: 0, first: 0, ended });
    expect(batch.status()).toMatchObject({ completed: 1, errors: 1, unknown: 0, waitingToStart: 1, ended: false });
    const again = Part.create(input!, 12);
    expect(again.start(13).map(({ position }) => position)).toEqual([2]);
    expect(batch.take(again.report(14), 14)).toBe(true);
    expect(batch.noteGone(0, { ended, rest }, 15)).toBeDefined();
    expect(batch.noteGone(0, { ended, rest }, 16)).toBeDefined();
    expect(batch.noteGone(0, { ended, rest }, 17)).toBeUndefined();
    expect(batch.result()).toMatchObject({ completed: 1, errors: 2, unknown: 1 });
  });

  test('keeps what a part has reported if nothing more can be found out', () => {
    const batch = Batch.create({ ...START, sealed: true, items: items(3) });
    const [first] = startParts(batch) as [Part];
    first.end(1, { status: 'completed', prLink: null });
    batch.take(first.report(5), 5);
    expect(batch.noteGone(0, { ended: [] }, 10)).toBeUndefined();
    expect(batch.result()).toMatchObject({ completed: 1, errors: 2, unknown: 2 });
  });

  test('that was reset makes its part tell everything again', () => {
    const batch = Batch.create({ ...START, sealed: true, items: items(2) });
    const [part] = startParts(batch) as [Part];
    endAll(part, 1, { status: 'completed', prLink: null });
    part.noteReported(part.report(2));
    const reset = Batch.create({ ...START, sealed: true, items: items(2) });
    startParts(reset, 3);
    const order = reset.askForAll(0, 4);
    expect(order).toMatchObject({ tellAll: true });
    expect(order.number).toBeGreaterThan(part.state.order.number);
    // A report that left before the part got the order. It lacks the ends that were told before.
    expect(reset.take(part.report(5), 5)).toBe(false);
    part.state.order = order;
    part.tellAll();
    expect(reset.take(part.report(6), 6)).toBe(true);
    expect(reset.result().items.map(({ status }) => status)).toEqual(['completed', 'completed']);
    expect(reset.hasEnded).toBe(true);
  });

  test('tells every part of a cancel, even those that are started later', () => {
    const batch = Batch.create({ ...START, items: items(10) });
    startParts(batch);
    batch.add(items(1, 'x', 10), 10, 'u');
    batch.cancel(7);
    expect(batch.ordersToSend(8)).toMatchObject([{ part: 0, order: { share: 0, cancel: true } }]);
    expect(batch.ordersToSend(9)).toEqual([]);
    expect(batch.nextPart(9).order).toMatchObject({ cancel: true, share: 0 });
  });

  test('shows errors as Markdown that their texts cannot break', () => {
    const batch = Batch.create({ ...START, sealed: true, items: items(2) });
    const [part] = startParts(batch) as [Part];
    part.end(0, { error: { type: 'MessageRejected', message: 'no | `way`\n# at all', delivered: 'no' } });
    batch.take(part.report(1), 1);
    const text = describeBatch(batch.status(), batch.firstErrors(10), 2);
    expect(text).toContain('**1 of 2 ended**');
    expect(text).toContain('- errors `MessageRejected`: 1');
    expect(text).toContain(
      '- item 1, `follow-up/p/job-0/b:0`: the message was not delivered, `MessageRejected: no |  way  # at all`',
    );
  });
});
