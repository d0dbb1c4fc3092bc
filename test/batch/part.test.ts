import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { paceOf } from '../../src/batch/orders.js';
import { Part } from '../../src/batch/part.js';

const order = (share: number) => ({ number: 1, share, ...paceOf(1) });
const item = (projectId: string, jobId: string) => ({ projectId, jobId, prompt: 'go on' });
const partOf = (items: unknown[], share = 50) =>
  Part.create({ batchId: 'b', part: 2, first: 500, template: { lane: 'batch' }, items, order: order(share) }, 0);
const DONE = { status: 'completed', prLink: null } as const;

describe('a part', () => {
  test('starts 5 follow-ups a second, up to its share', () => {
    const part = partOf(
      Array.from({ length: 20 }, (_, index) => item('p', `job-${index}`)),
      12,
    );
    expect(part.start(0).map(({ position }) => position)).toEqual([0, 1, 2, 3, 4]);
    expect(part.start(999)).toEqual([]);
    expect(part.nextStartAtMs()).toBe(1_000);
    expect(part.start(1_000)).toHaveLength(5);
    expect(part.start(2_000)).toHaveLength(2);
    expect(part.nextStartAtMs()).toBeUndefined();
    part.end(3, DONE);
    expect(part.start(3_000)[0]).toMatchObject({
      position: 12,
      workflowId: 'follow-up/p/job-12/b:512',
      input: { lane: 'batch', projectId: 'p', jobId: 'job-12', prompt: 'go on' },
    });
  });

  test('starts the items of one job one after another, in their order', () => {
    const part = partOf([item('p', 'a'), item('p', 'a'), item('p', 'b'), item('q', 'a')]);
    expect(part.start(0).map(({ position }) => position)).toEqual([0, 3, 2]);
    expect(part.nextStartAtMs()).toBeUndefined();
    part.end(0, DONE);
    expect(part.start(1_000).map(({ position }) => position)).toEqual([1]);
  });

  test('begins with the project that has the fewest open follow-ups', () => {
    const part = partOf(['a', 'a', 'a', 'b', 'b', 'c'].map((project, index) => item(project, `job-${index}`)));
    expect(part.start(0).map(({ position }) => position)).toEqual([0, 3, 5, 1, 4]);
  });

  test('ends a bad item with an error of its own, and starts the others', () => {
    const part = partOf([item('p', 'a'), null, { projectId: 'p', jobId: '..' }, item('p', 'b')]);
    expect(part.itemAt(2)).toMatchObject({
      index: 502,
      projectId: 'p',
      jobId: '',
      workflowId: '',
      error: { type: 'InvalidInput', delivered: 'no' },
    });
    expect(part.start(0).map(({ position }) => position)).toEqual([0, 3]);
  });

  test('tells everything again when the batch asks for it, even while a report is on its way', () => {
    const part = partOf([item('p', 'a'), item('p', 'b')]);
    part.start(0);
    part.end(0, DONE);
    part.end(1, DONE);
    const onItsWay = part.report(1_000);
    part.tellAll();
    part.noteReported(onItsWay);
    const again = part.report(1_000);
    expect(again.ended).toMatchObject([{ index: 500 }, { index: 501 }]);
    part.noteReported(again);
    expect(part.report(2_000).ended).toEqual([]);
  });

  test('accepts only the first end of an item, and only ends of its own follow-ups', () => {
    const part = partOf([item('p', 'a')]);
    part.start(0);
    expect(part.positionOf('follow-up/p/a/b:500')).toBe(0);
    for (const id of ['follow-up/p/a/b:0', 'follow-up/p/x/b:500', 'follow-up/p/a/c:500', '', ':500']) {
      expect(part.positionOf(id)).toBeUndefined();
    }
    part.end(0, DONE);
    part.end(0, { error: { type: 'Other', message: '', delivered: 'unknown' } });
    expect(part.counts()).toMatchObject({ completed: 1, errors: 0 });
  });

  test('reports each end until it is known to have arrived', () => {
    const part = partOf([item('p', 'a'), item('p', 'b')]);
    part.start(0);
    part.end(0, DONE);
    const first = part.report(10);
    part.end(1, DONE);
    expect(part.report(10)).toMatchObject({ number: 11, ended: [{ index: 500 }, { index: 501 }] });
    part.noteReported(first);
    expect(part.report(500)).toMatchObject({ number: 500, open: 0, ended: [{ index: 501, status: 'completed' }] });
  });

  test('shortens a long error message and leaves out a long link', () => {
    const part = partOf([item('p', 'a'), item('p', 'b')]);
    part.end(0, { status: 'completed', prLink: `https://${'x'.repeat(300)}` });
    part.end(1, { error: { type: 'Other', message: 'ü'.repeat(10_000), delivered: 'no' } });
    expect(part.itemAt(0)).not.toHaveProperty('prLink');
    expect(Buffer.byteLength(part.itemAt(1).error?.message ?? '')).toBeLessThanOrEqual(200);
  });

  test('completes every list, never has two items of a job open, and may continue as new at any time', () => {
    const items = fc.array(fc.record({ projectId: fc.constantFrom('p', 'q'), jobId: fc.constantFrom('a', 'b', 'c') }), {
      maxLength: 30,
    });
    fc.assert(
      fc.property(items, fc.integer({ min: 1, max: 6 }), fc.infiniteStream(fc.nat(5)), (list, share, chance) => {
        let part = partOf(
          list.map((ids) => ({ ...ids, prompt: 'x' })),
          share,
        );
        const order: string[] = [];
        for (let nowMs = 0; !part.hasEnded; nowMs += 500) {
          expect(nowMs).toBeLessThan(500 * 1_000);
          order.push(...part.start(nowMs).map(({ position }) => `${part.itemAt(position).jobId} ${position}`));
          const open = part.openPositions();
          const jobs = open.map((position) => `${part.itemAt(position).projectId}/${part.itemAt(position).jobId}`);
          expect(new Set(jobs).size).toBe(jobs.length);
          expect(open.length).toBeLessThanOrEqual(share);
          const ended = open[chance.next().value ?? 0];
          if (ended !== undefined) part.end(ended, DONE);
          part = new Part(JSON.parse(JSON.stringify(part.state)));
        }
        expect(order).toHaveLength(list.length);
        expect(part.counts().completed).toBe(list.length);
      }),
      { numRuns: 100 },
    );
  });
});
