import { expect, test } from 'vitest';
import { describeBatchResult, describePreview, exitCodeOfBatch, formatBatch } from '../../src/cli/batch-commands.js';
import type { BatchItem, BatchStatus, FollowUpBatchResult } from '../../src/contract/index.js';
import { timeless } from './run-cli.js';

const now = new Date('2026-11-21T10:00:00Z');
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
    ...{ batchId: 'nightly', total: 200, waitingToStart: 100, open: 50, ...counts, waitingForBudget: 12, parts: 1 },
    ...{ errorsByType: { DeliveryUnknown: 3, JobNotFound: 2 }, maxOpen: 50, sealed: true, cancelled: false },
    ...{ ended: false, startedAt: '2026-11-21T09:30:00Z' },
    hold: { name: 'canary', reason: 'the canary has ended: 5 of 200 items', at: '2026-11-21T09:50:00Z' },
  };
  const error = { type: 'DeliveryUnknown', message: 'not\u001b[31m\nknown', delivered: 'unknown' } as const;
  const text = formatBatch(status, [item(3, { status: 'failed' }), item(4, { error })], now);
  expect(timeless(text)).toMatchInlineSnapshot(`
    "batch    nightly, held
    held     since TIME: the canary has ended: 5 of 200 items; follow-up batch continue nightly, or follow-up batch cancel nightly
    items    50 of 200 done: 40 completed, 3 archived, 2 failed, 5 without a result (DeliveryUnknown 3, JobNotFound 2), 50 open, 12 of them waiting for budget, 100 not started
    started  TIME
      follow-up/demo/job-3/nightly:3  the agent job failed
      follow-up/demo/job-4/nightly:4  DeliveryUnknown: not known (delivered: unknown)
      and 5 more failures; --json has them all"
  `);
  const cutOff = formatBatch({ ...status, cutOff: 'terminated', stillRunning: 2 }, [], now);
  expect(cutOff).toContain('nightly, terminated, without a result');
  expect(cutOff).toContain('2 follow-ups still running: follow-up list --batch nightly');
  expect(cutOff).not.toContain('held');
});

test('a result lists at most twenty pull requests', () => {
  const items = Array.from({ length: 23 }, (_, index) =>
    item(index, { status: 'completed', prLink: `https://x/${index}` }),
  );
  const lines = describeBatchResult('b', { ...result, total: 23, completed: 23, items }).split('\n');
  expect(lines[1]).toBe('  follow-up/demo/job-0/nightly:0  https://x/0');
  expect(lines.slice(21)).toEqual(['  and 3 more pull requests; --json has them all']);
  const ofLongBatch = describeBatchResult('b', { ...result, truncated: true, items: items.slice(0, 1) });
  expect(ofLongBatch).toMatch(/\n {2}and more pull requests; --json has them all$/);
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
