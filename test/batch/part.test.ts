import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Part } from '../../src/batch/part.js';
import type { PartOrder } from '../../src/protocol/index.js';

const item = (projectId: string, jobId: string) => ({ projectId, jobId, prompt: 'go on' });

/** The third part of a batch, whose items begin at index 500. By default all of them may be open. */
const partOf = (items: unknown[], order: Partial<PartOrder> = {}): Part =>
  new Part({
    ...{ batchId: 'b', part: 2, first: 500, hash: 'own', template: { lane: 'batch' }, items },
    order: { number: 1, since: 1, share: 50, ...order },
  });

/** Starts what may start, and returns the positions. */
const start = (part: Part): number[] => part.start().map(({ position }) => position);

const COMPLETED = { status: 'completed', prLink: null } as const;

describe('a part', () => {
  test('starts as many follow-ups as its share', () => {
    const items = Array.from({ length: 20 }, (_, index) => item('p', `job-${index}`));
    const part = partOf(items, { share: 3 });
    expect(start(part)).toEqual([0, 1, 2]);
    expect(start(part)).toEqual([]);
    part.end(1, COMPLETED);
    expect(start(part)).toEqual([3]);
  });

  test('starts a follow-up with the fields of its item and of the template', () => {
    const part = partOf([item('p', 'a')]);
    const input = { lane: 'batch', projectId: 'p', jobId: 'a', prompt: 'go on' };
    expect(part.start()).toEqual([{ position: 0, workflowId: 'follow-up/p/a/b:500', input }]);
  });

  test('starts only items below the index in its order', () => {
    const part = partOf([item('p', 'a'), item('p', 'b'), item('p', 'c')], { until: 502 });
    expect(start(part)).toEqual([0, 1]);
    part.receive({ number: 2, since: 1, share: 50 });
    expect(start(part)).toEqual([2]);
  });

  test('starts the items of one job one after another, in their order', () => {
    const part = partOf([item('p', 'a'), item('p', 'a'), item('p', 'b'), item('q', 'a')]);
    expect(start(part)).toEqual([0, 3, 2]);
    part.end(0, COMPLETED);
    expect(start(part)).toEqual([1]);
  });

  test('begins with the project that has the fewest open follow-ups', () => {
    const items = ['a', 'a', 'a', 'b', 'b', 'c'].map((project, index) => item(project, `job-${index}`));
    expect(start(partOf(items, { share: 5 }))).toEqual([0, 3, 5, 1, 4]);
  });

  test('ends an invalid item with an error of its own', () => {
    const part = partOf([item('p', 'a'), null, { projectId: 'p', jobId: '..' }, item('p', 'b')]);
    const error = { type: 'InvalidInput', delivered: 'no' };
    expect(part.items[1]).toMatchObject({ index: 501, projectId: '', jobId: '', workflowId: '', error });
    expect(part.items[2]).toMatchObject({ index: 502, projectId: 'p', jobId: '', workflowId: '', error });
  });

  test('starts valid items beside invalid ones', () => {
    const part = partOf([item('p', 'a'), null, { projectId: 'p', jobId: '..' }, item('p', 'b')]);
    expect(start(part)).toEqual([0, 3]);
  });

  test('ignores an order that is older than its latest', () => {
    const part = partOf([item('p', 'a')], { number: 5, share: 0 });
    part.receive({ number: 4, since: 1, share: 50 });
    expect(start(part)).toEqual([]);
    part.receive({ number: 9, since: 1, share: 1 });
    expect(start(part)).toEqual([0]);
  });

  test('names its hash and its latest order in a report', () => {
    const part = partOf([item('p', 'a')], { number: 5, share: 0 });
    part.receive({ number: 4, since: 1, share: 50 });
    part.receive({ number: 9, since: 1, share: 1 });
    expect(part.report(10)).toMatchObject({ hash: 'own', order: 9 });
  });

  test('reports an end again until it is known to have arrived', () => {
    const part = partOf([item('p', 'a'), item('p', 'b')]);
    part.start();
    part.end(0, COMPLETED);
    const first = part.report(10);
    part.end(1, COMPLETED);
    expect(part.report(10).ended).toMatchObject([{ index: 500 }, { index: 501 }]);
    part.noteReported(first);
    expect(part.report(500)).toMatchObject({ open: 0, ended: [{ index: 501, status: 'completed' }] });
  });

  test('numbers its reports by the time, or on from the last one', () => {
    const part = partOf([item('p', 'a')]);
    expect(part.report(10).number).toBe(10);
    expect(part.report(10).number).toBe(11);
    expect(part.report(500).number).toBe(500);
  });

  test('counts only the first end of an item', () => {
    const part = partOf([item('p', 'a'), item('p', 'b')]);
    part.start();
    part.end(0, COMPLETED);
    part.end(0, { error: { type: 'Other', message: '', delivered: 'unknown' } });
    part.end(1, COMPLETED);
    expect(part.counts()).toMatchObject({ completed: 2, errors: 0 });
  });

  test('reports everything again if the batch asks for it while a report is on its way', () => {
    const part = partOf([item('p', 'a')]);
    part.start();
    part.end(0, COMPLETED);
    const onItsWay = part.report(1_000);
    part.receive({ number: 2, since: 2, share: 50 });
    part.noteReported(onItsWay);
    expect(part.report(1_000).ended).toMatchObject([{ index: 500 }]);
  });

  test('reports everything again if a later order overtakes the one that asks for it', () => {
    const part = partOf([item('p', 'a')]);
    part.start();
    part.end(0, COMPLETED);
    part.noteReported(part.report(1_000));
    part.receive({ number: 3, since: 2, share: 20 });
    part.receive({ number: 2, since: 2, share: 50 });
    expect(part.order.share).toBe(20);
    expect(part.report(1_000).ended).toMatchObject([{ index: 500 }]);
  });

  test('reports everything again once if the batch asks for it', () => {
    const part = partOf([item('p', 'a')]);
    part.start();
    part.end(0, COMPLETED);
    part.noteReported(part.report(1_000));
    part.receive({ number: 2, since: 2, share: 50 });
    const again = part.report(1_000);
    expect(again.ended).toMatchObject([{ index: 500 }]);
    part.noteReported(again);
    part.receive({ number: 3, since: 2, share: 20 });
    expect(part.report(2_000).ended).toEqual([]);
  });

  test('shortens a long error message', () => {
    const part = partOf([item('p', 'a')]);
    part.end(0, { error: { type: 'Other', message: 'ü'.repeat(10_000), delivered: 'no' } });
    const { message = '' } = part.items[0]?.error ?? {};
    expect(message).toMatch(/^ü+…$/);
    expect(Buffer.byteLength(message)).toBeLessThanOrEqual(200);
  });

  test('leaves out a long link', () => {
    const part = partOf([item('p', 'a')]);
    part.end(0, { status: 'completed', prLink: `https://${'x'.repeat(300)}` });
    expect(part.items[0]).toMatchObject({ status: 'completed' });
    expect(part.items[0]).not.toHaveProperty('prLink');
  });

  test('completes every list, and never has two items of a job open', () => {
    const items = fc.array(fc.record({ projectId: fc.constantFrom('p', 'q'), jobId: fc.constantFrom('a', 'b', 'c') }), {
      maxLength: 30,
    });
    fc.assert(
      fc.property(items, fc.integer({ min: 1, max: 6 }), fc.infiniteStream(fc.nat(5)), (list, share, chance) => {
        const part = partOf(
          list.map(({ projectId, jobId }) => item(projectId, jobId)),
          { share },
        );
        let started = 0;
        for (let step = 0; !part.hasEnded; step++) {
          expect(step).toBeLessThan(1_000);
          started += part.start().length;
          const open = part.positions('open');
          const jobs = open.map((position) => `${part.items[position]?.projectId}/${part.items[position]?.jobId}`);
          expect(new Set(jobs).size).toBe(jobs.length);
          expect(open.length).toBeLessThanOrEqual(share);
          const ended = open[chance.next().value ?? 0];
          if (ended !== undefined) part.end(ended, COMPLETED);
        }
        expect(started).toBe(list.length);
        expect(part.counts().completed).toBe(list.length);
      }),
      { numRuns: 100 },
    );
  });
});
