import { describe, expect, test } from 'vitest';
import {
  describeBatch,
  describeBatchProgress,
  describeBatchResult,
  describePreview,
  exitCodeOfBatch,
} from '../../src/cli/batch.js';
import type { BatchItem, BatchStatus, FollowUpBatchResult } from '../../src/contract/index.js';

const now = new Date('2026-11-21T10:00:00Z');
const status: BatchStatus = {
  batchId: 'nightly',
  total: 200,
  waitingToStart: 100,
  open: 50,
  completed: 40,
  archived: 3,
  failed: 2,
  errors: 5,
  unknown: 3,
  errorsByType: { DeliveryUnknown: 3, JobNotFound: 2 },
  waitingForBudget: 12,
  maxOpen: 50,
  sealed: true,
  cancelled: false,
  ended: false,
  parts: 1,
  startedAt: '2026-11-21T09:30:00Z',
};
const item = (index: number, more: Partial<BatchItem> = {}): BatchItem => ({
  index,
  projectId: 'demo',
  jobId: `job-${index}`,
  workflowId: `follow-up/demo/job-${index}/nightly:${index}`,
  ...more,
});
const unknownItem = item(4, {
  error: { type: 'DeliveryUnknown', message: 'it cannot be told', delivered: 'unknown' },
});
const result: FollowUpBatchResult = {
  total: 2,
  completed: 2,
  archived: 0,
  failed: 0,
  errors: 0,
  unknown: 0,
  errorsByType: {},
  items: [],
};

describe('the text of a batch', () => {
  test('counts items that are done, failed, open, waiting for budget and not started', () => {
    expect(describeBatchProgress(status, now)).toBe(
      '50 of 200 done: 40 completed, 3 archived, 2 failed, 5 without a result (DeliveryUnknown 3, JobNotFound 2), ' +
        '50 open, 12 of them waiting for budget, 100 not started',
    );
  });

  test('says since when and why a batch is held, and both ways on', () => {
    const hold = {
      name: 'canary',
      reason: 'the canary has ended: 5 of 200 items',
      at: '2026-11-21T09:50:00Z',
    } as const;
    const text =
      /held +since \S+ \S+: the canary .* items; follow-up batch continue nightly, or follow-up batch cancel nightly$/m;
    expect(describeBatchProgress({ ...status, hold }, now)).toMatch(text);
    expect(describeBatch({ ...status, hold }, [], now)).toMatch(text);
    expect(describeBatch({ ...status, hold, cutOff: 'terminated' }, [], now)).not.toMatch(text);
  });

  test('lists the pull requests of a result, at most twenty', () => {
    const items = Array.from({ length: 23 }, (_, index) =>
      item(index, { status: 'completed', prLink: `https://git.example/pull/${index}` }),
    );
    const lines = describeBatchResult('b', { ...result, total: 23, completed: 23, items }).split('\n');
    expect(lines[1]).toBe('  follow-up/demo/job-0/nightly:0  https://git.example/pull/0');
    expect(lines.at(-1)).toBe('  and 3 more pull requests; --json has them all');
    expect(lines).toHaveLength(22);
    const ofLongBatch = describeBatchResult('b', { ...result, truncated: true, items: items.slice(0, 1) });
    expect(ofLongBatch.split('\n').at(-1)).toBe('  and more pull requests; --json has them all');
  });

  test('lists failures with their reasons, and counts those that it leaves out', () => {
    const text = describeBatch(status, [item(3, { status: 'failed' }), unknownItem], now);
    expect(text).toContain('  follow-up/demo/job-3/nightly:3  the agent job failed');
    expect(text).toContain('  follow-up/demo/job-4/nightly:4  DeliveryUnknown: it cannot be told (delivered: unknown)');
    expect(text).toContain('and 5 more failures; --json has them all');
  });

  test('of an ended batch shows nothing open or left to start', () => {
    const text = describeBatch({ ...status, ended: true, waitingToStart: 0, open: 0 }, [], now);
    expect(text).not.toMatch(/open|not started/);
    expect(text).toContain('nightly, ended');
  });

  test('keeps control characters of a message from the terminal', () => {
    const error = { type: 'MessageRejected', message: 'no\u001b[31m\nroom', delivered: 'no' } as const;
    const text = describeBatchResult('b', { ...result, errors: 1, items: [item(0, { error })] });
    expect(text.split('\n')[1]).toBe('  follow-up/demo/job-0/nightly:0  MessageRejected: no room (delivered: no)');
  });
});

test.each([
  [{ completed: 1, archived: 1 }, 0],
  [{ completed: 1, failed: 1 }, 3],
  [{ failed: 1, errors: 1 }, 4],
  [{ completed: 2, cancelled: true } as const, 4],
])('a batch with %o ends with exit code %i', (counts, exitCode) => {
  expect(exitCodeOfBatch({ ...result, completed: 0, ...counts })).toBe(exitCode);
});

test('a preview names what would be sent, what blocks a project, and that its id was used before', () => {
  const project = { projectId: 'demo', toSend: 3, limit: 100, windowMs: 3_600_000, freeSlots: 40, waiting: 2 };
  const blocked = { reasons: ['operator' as const], note: 'release\u001b[31m freeze' };
  const preview = {
    ...{ batchId: 'nightly', total: 6, alreadyStarted: false, inputDiffers: false },
    projects: [
      { ...project, earliestEndAt: '2026-11-21T12:00:00Z' },
      { ...project, projectId: 'website', waiting: 0, blocked },
    ],
  };
  expect(describePreview(preview, now).split('\n')).toEqual([
    'batch    nightly, 6 items; nothing is sent (--dry-run)',
    expect.stringMatching(
      /^project {2}demo: 3 to send, 40 of 100 slots in 1 h free, 2 wait before them, the last not before \S+ \S+$/,
    ),
    'project  website: 3 to send, 40 of 100 slots in 1 h free, blocked: operator (release freeze)',
  ]);
  expect(describePreview({ ...preview, alreadyStarted: true, inputDiffers: true }, now).split('\n')).toEqual([
    'batch    nightly, 6 items; nothing is sent (--dry-run)',
    'started  the id was used before, with different input: it is refused',
  ]);
});
