import { expect, test } from 'vitest';
import { describeBatch } from '../../src/batch/batch-details.js';
import {
  describeBatchResult,
  describeLeftOut,
  describePreview,
  exitCodeOfBatch,
  summariseBatch,
} from '../../src/cli/batch-commands.js';
import { clock, toLines } from '../../src/cli/lines.js';
import type { BatchItem, BatchStatus, FollowUpBatchResult } from '../../src/contract/index.js';
import { timeless } from './run-cli.js';

const item = (index: number, more: Partial<BatchItem> = {}): BatchItem => ({
  ...{ index, projectId: 'demo', jobId: `job-${index}`, workflowId: `follow-up/demo/job-${index}/nightly:${index}` },
  ...more,
});
const result: FollowUpBatchResult = {
  ...{ total: 2, completed: 0, archived: 0, failed: 0, errors: 0, unknown: 0, errorsByType: {}, items: [] },
};

test('the text of a batch counts its items, says why it is held or cut off and what to do, and lists failures', () => {
  const counts = { completed: 40, archived: 3, failed: 2, errors: 5, unknown: 3 };
  const status: BatchStatus = {
    ...{ batchId: 'nightly', total: 200, waitingToStart: 100, open: 50, ...counts, waitingToSend: 12, parts: 1 },
    ...{ errorsByType: { DeliveryUnknown: 3, JobNotFound: 2 }, maxOpen: 50, sealed: true, cancelled: false },
    ...{ ended: false, startedAt: '2026-11-21T09:30:00Z' },
    hold: { name: 'canary', reason: 'the canary has ended: 5 of 200 items', at: '2026-11-21T09:50:00Z' },
  };
  const error = { type: 'DeliveryUnknown', message: 'not\u001b[31m\nknown', delivered: 'unknown' } as const;
  const textOf = (more: Partial<BatchStatus>, failures: BatchItem[] = []) =>
    timeless(toLines(describeBatch({ ...status, ...more }, failures, clock)).join('\n'));
  expect(textOf({}, [item(3, { status: 'failed' }), item(4, { error })])).toMatchInlineSnapshot(`
    "50 of 200 ended, held since TIME: the canary has ended: 5 of 200 items
    batch             nightly
    completed         40
    archived          3
    agent job failed  2
    no result         5 (DeliveryUnknown 3, JobNotFound 2; 3 possibly delivered)
    open              50, 12 of them waiting to send
    not started       100
    open at most      50
    started           TIME
    to do             to go on: follow-up batch continue nightly
                      or, to end it: follow-up batch cancel nightly

    Failed items
      follow-up/demo/job-3/nightly:3: the agent job failed
      follow-up/demo/job-4/nightly:4: possibly delivered, DeliveryUnknown: not known
      and 5 more: follow-up batch status nightly --json"
  `);
  const listed = [
    { projectId: 'demo', state: 'completed', isRunning: false, count: 90 },
    { projectId: 'demo', state: 'polling', isRunning: true, count: 10 },
  ];
  const cutOff = textOf({ cutOff: 'terminated', listed });
  expect(cutOff).toContain('terminated without a result; its 200 items, as Temporal lists them\n');
  expect(cutOff).toMatch(/^completed +90 in project demo\npolling +10 in project demo\nnot started +100$/m);
  expect(cutOff).toMatch(
    /^to do +wait for those that run: follow-up list --batch nightly\n +then: follow-up batch retry nightly /m,
  );
  expect(cutOff).not.toMatch(/held|open|40/);
  expect(timeless(summariseBatch(status))).toBe(
    '50 of 200 ended, held since TIME: the canary has ended: 5 of 200 items, completed 40, archived 3, ' +
      'agent job failed 2, no result 5 (DeliveryUnknown 3, JobNotFound 2; 3 possibly delivered), ' +
      'open 50, 12 of them waiting to send, not started 100; ' +
      'to go on: follow-up batch continue nightly; or, to end it: follow-up batch cancel nightly',
  );
});

test('the line of a batch without items has no counts', () => {
  const { items: _items, ...counts } = { ...result, total: 0 };
  const empty = {
    batchId: 'b',
    ...counts,
    open: 0,
    waitingToStart: 0,
    maxOpen: 50,
    parts: 0,
    startedAt: '2026-11-21T09:30:00Z',
  };
  expect(summariseBatch({ ...empty, sealed: false, cancelled: false, ended: false })).toBe(
    '0 of 0 ended, more items may come',
  );
});

test('a retry says which items it leaves out, and why', () => {
  expect(describeLeftOut({ delivered: 3000, open: 1, neverStarted: 3 })).toEqual([
    '3000 items delivered before: not sent again',
    '1 item still running: not sent again',
    'the last 3 items were never started; to send them, start a new batch',
  ]);
  expect(describeLeftOut({ delivered: 0, open: 0, neverStarted: 1 })).toEqual([
    'the last item was never started; to send it, start a new batch',
  ]);
});

test('a result lists at most twenty pull requests and failures', () => {
  const items = Array.from({ length: 23 }, (_, index) =>
    item(index, { status: 'completed', prLink: `https://x/${index}` }),
  );
  const failed = items.map(({ index }) => item(index, { status: 'failed' }));
  const linesOf = (more: Partial<FollowUpBatchResult>) =>
    describeBatchResult('b', { ...result, total: 23, ...more }).split('\n');
  const lines = linesOf({ completed: 23, items });
  expect(lines.slice(0, 6)).toEqual([
    '23 of 23 ended',
    'batch      b',
    'completed  23',
    '',
    'Pull requests',
    '  follow-up/demo/job-0/nightly:0 https://x/0',
  ]);
  expect(lines.slice(25)).toEqual(['  and 3 more: follow-up batch status b --json']);
  expect(linesOf({ completed: 23, truncated: true, items: items.slice(0, 1) }).at(-1)).toBe(
    '  and more: follow-up batch status b --json',
  );
  const failures = linesOf({ failed: 23, items: failed });
  expect(failures.slice(-3)).toEqual([
    '  follow-up/demo/job-18/nightly:18: the agent job failed',
    '  follow-up/demo/job-19/nightly:19: the agent job failed',
    '  and 3 more: follow-up batch status b --json',
  ]);
});

test.each([
  [{ completed: 1, archived: 1 }, 0],
  [{ completed: 1, failed: 1 }, 3],
  [{ failed: 1, errors: 1 }, 4],
  [{ completed: 2, cancelled: true } as const, 4],
])('a batch with %o ends with exit code %i', (ends, exitCode) => {
  expect(exitCodeOfBatch({ ...result, ...ends })).toBe(exitCode);
});

test('a preview shows the budget of each project, and says that its id was used before with another input', () => {
  const preview = { batchId: 'nightly', total: 6, alreadyStarted: false, inputDiffers: false };
  const projects = [
    { projectId: 'demo', toSend: 4, state: 'none' as const },
    { projectId: 'site', toSend: 2, state: 'running' as const, statusUnavailable: 'no worker\u001b[31m' },
  ];
  expect(describePreview({ ...preview, projects })).toBe(
    [
      'batch    nightly, 6 items; nothing is sent (--dry-run)',
      'project  demo: 4 to send; project demo has no budget yet: it gets one with its first follow-up; 0 slots used',
      'project  site: 2 to send; no response: no worker',
    ].join('\n'),
  );
  const used = { ...preview, projects, alreadyStarted: true, inputDiffers: true };
  expect(describePreview(used)).toContain('the id was used before, with different input: it is refused');
});
