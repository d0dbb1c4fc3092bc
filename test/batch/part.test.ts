import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Part } from '../../src/batch/part.js';

const item = (projectId: string, jobId: string) => ({ projectId, jobId, prompt: 'go on' });
const partOf = (items: unknown[], order: object = {}) =>
  new Part({
    batchId: 'b',
    part: 2,
    first: 500,
    template: { lane: 'batch' },
    items,
    hash: 'own',
    order: { number: 1, share: 50, ...order },
  });
const positions = (part: Part) => part.start().map(({ position }) => position);
const DONE = { status: 'completed', prLink: null } as const;

describe('a part', () => {
  test('starts as many follow-ups as its share', () => {
    const part = partOf(
      Array.from({ length: 20 }, (_, index) => item('p', `job-${index}`)),
      { share: 3 },
    );
    expect(positions(part)).toEqual([0, 1, 2]);
    expect(part.start()).toEqual([]);
    part.end(1, DONE);
    const input = { lane: 'batch', projectId: 'p', jobId: 'job-3', prompt: 'go on' };
    expect(part.start()).toEqual([{ position: 3, workflowId: 'follow-up/p/job-3/b:503', input }]);
  });

  test('starts only items below the index in its order', () => {
    const part = partOf([item('p', 'a'), item('p', 'b'), item('p', 'c')], { until: 502 });
    expect(positions(part)).toEqual([0, 1]);
    part.receive({ number: 2, share: 50 });
    expect(positions(part)).toEqual([2]);
  });

  test('starts the items of one job one after another, in their order', () => {
    const part = partOf([item('p', 'a'), item('p', 'a'), item('p', 'b'), item('q', 'a')]);
    expect(positions(part)).toEqual([0, 3, 2]);
    part.end(0, DONE);
    expect(positions(part)).toEqual([1]);
  });

  test('begins with the project that has the fewest open follow-ups', () => {
    const part = partOf(
      ['a', 'a', 'a', 'b', 'b', 'c'].map((project, index) => item(project, `job-${index}`)),
      { share: 5 },
    );
    expect(positions(part)).toEqual([0, 3, 5, 1, 4]);
  });

  test('ends a bad item with an error of its own, and starts the others', () => {
    const part = partOf([item('p', 'a'), null, { projectId: 'p', jobId: '..' }, item('p', 'b')]);
    const error = { type: 'InvalidInput', delivered: 'no' };
    expect(part.items[2]).toMatchObject({ index: 502, projectId: 'p', jobId: '', workflowId: '', error });
    expect(positions(part)).toEqual([0, 3]);
  });

  test('ignores an order that is late, and names the latest in its report', () => {
    const part = partOf([item('p', 'a')], { number: 5, share: 0 });
    part.receive({ number: 4, share: 50 });
    expect(part.start()).toEqual([]);
    part.receive({ number: 9, share: 1 });
    expect(positions(part)).toEqual([0]);
    expect(part.report(10)).toMatchObject({ hash: 'own', order: 9 });
  });

  test('reports everything again when the batch asks for it, even while a report is on its way', () => {
    const part = partOf([item('p', 'a')]);
    part.start();
    part.end(0, DONE);
    const onItsWay = part.report(1_000);
    part.receive({ number: 2, share: 50, reportAll: true });
    part.noteReported(onItsWay);
    const again = part.report(1_000);
    expect(again.ended).toMatchObject([{ index: 500 }]);
    part.noteReported(again);
    expect(part.report(2_000).ended).toEqual([]);
  });

  test('reports each end until it is known to have arrived, and counts only the first', () => {
    const part = partOf([item('p', 'a'), item('p', 'b')]);
    part.start();
    part.end(0, DONE);
    part.end(0, { error: { type: 'Other', message: '', delivered: 'unknown' } });
    const first = part.report(10);
    part.end(1, DONE);
    expect(part.report(10)).toMatchObject({ number: 11, ended: [{ index: 500 }, { index: 501 }] });
    part.noteReported(first);
    expect(part.report(500)).toMatchObject({ number: 500, open: 0, ended: [{ index: 501, status: 'completed' }] });
    expect(part.counts()).toMatchObject({ completed: 2, errors: 0 });
  });

  test('shortens a long error message and leaves out a long link', () => {
    const part = partOf([item('p', 'a'), item('p', 'b')]);
    part.end(0, { status: 'completed', prLink: `https://${'x'.repeat(300)}` });
    part.end(1, { error: { type: 'Other', message: 'ü'.repeat(10_000), delivered: 'no' } });
    expect(part.items[0]).not.toHaveProperty('prLink');
    expect(Buffer.byteLength(part.items[1]?.error?.message ?? '')).toBeLessThanOrEqual(200);
  });

  test('completes every list, and never has two items of a job open', () => {
    const items = fc.array(fc.record({ projectId: fc.constantFrom('p', 'q'), jobId: fc.constantFrom('a', 'b', 'c') }), {
      maxLength: 30,
    });
    fc.assert(
      fc.property(items, fc.integer({ min: 1, max: 6 }), fc.infiniteStream(fc.nat(5)), (list, share, chance) => {
        const part = partOf(
          list.map((ids) => ({ ...ids, prompt: 'x' })),
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
          if (ended !== undefined) part.end(ended, DONE);
        }
        expect(started).toBe(list.length);
        expect(part.counts().completed).toBe(list.length);
      }),
      { numRuns: 100 },
    );
  });
});
