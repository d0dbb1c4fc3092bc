import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { checkReportFile, toBatchRow, writeCsvReport } from '../../src/cli/batch-report.js';
import {
  describeBatch,
  describeBatchProgress,
  describeBatchResult,
  exitCodeOfBatch,
} from '../../src/cli/batch-text.js';
import type { LiveBatchStatus } from '../../src/client/index.js';
import type { BatchItem, FollowUpBatchResult } from '../../src/contract/index.js';

const now = new Date('2026-11-21T10:00:00Z');
const status: LiveBatchStatus = {
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
  expectedEndAt: '2026-11-21T11:30:00Z',
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
  test('counts items that are done, failed, open, waiting for budget and not started, and says when the batch ends', () => {
    const { headline, timing } = describeBatchProgress(status, now);
    expect(headline).toBe(
      '50 of 200 done: 40 completed, 3 archived, 2 failed, 5 without a result (DeliveryUnknown 3, JobNotFound 2), ' +
        '50 open, 12 of them waiting for budget, 100 not started',
    );
    expect(timing).toMatch(/^expected \S+ \S+ \(in 1 h 30 min\)$/);
  });

  test('gives the place and the time of the next send, and why a budget does not answer', () => {
    const nextSend = { workflowId: 'follow-up/demo/job-1/nightly:1', position: 7, expectedAt: '2026-11-21T10:05:00Z' };
    const live = { ...status, nextSend, budgetsSilent: { other: 'it is paused in Temporal' } };
    expect(describeBatchProgress(live, now).timing).toMatch(/^next send at position 7, expected \S+ \S+, expected /);
    const text = describeBatch(live, [], now);
    expect(text).toMatch(/^next {9}next send at position 7, expected /m);
    expect(text).toContain('overdue      the budget of other does not answer: it is paused in Temporal');
  });

  test('lists the pull requests of a result, at most twenty', () => {
    const items = Array.from({ length: 23 }, (_, index) =>
      item(index, { status: 'completed', prLink: `https://git.example/pull/${index}` }),
    );
    const lines = describeBatchResult('b', { ...result, total: 23, completed: 23, items }).split('\n');
    expect(lines[1]).toBe('  follow-up/demo/job-0/nightly:0  https://git.example/pull/0');
    expect(lines.at(-1)).toBe('  and 3 more pull requests; --json and --csv have them all');
    expect(lines).toHaveLength(22);
  });

  test('lists failures with their reasons, and counts those that it leaves out', () => {
    const text = describeBatch(status, [item(3, { status: 'failed' }), unknownItem], now);
    expect(text).toContain('  follow-up/demo/job-3/nightly:3  the agent job failed');
    expect(text).toContain('  follow-up/demo/job-4/nightly:4  DeliveryUnknown: it cannot be told (delivered: unknown)');
    expect(text).toContain('and 5 more; --json and --csv have them all');
    expect(text).toContain('50 open, 12 of them waiting for budget, at most 50 at a time');
  });

  test('of an ended batch shows no expected end, and nothing open or left to start', () => {
    const text = describeBatch({ ...status, ended: true, waitingToStart: 0, open: 0 }, [], now);
    expect(text).not.toMatch(/open|not started|expected/);
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

describe('a report as CSV', () => {
  const rows = [item(0, { status: 'completed', prLink: '=cmd|x' }), item(1, { status: 'failed', prLink: null })]
    .concat(unknownItem, item(5))
    .map(toBatchRow);
  const lines = [
    'index,projectId,jobId,workflowId,status,prLink,errorType,message,delivered',
    "0,demo,job-0,follow-up/demo/job-0/nightly:0,completed,'=cmd|x,,,yes",
    '1,demo,job-1,follow-up/demo/job-1/nightly:1,failed,,,,yes',
    '4,demo,job-4,follow-up/demo/job-4/nightly:4,error,,DeliveryUnknown,it cannot be told,unknown',
    '5,demo,job-5,follow-up/demo/job-5/nightly:5,pending,,,,',
    '',
  ];
  test('has a row for each item, in a file or on stdout', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'report-'));
    const file = join(directory, 'report.csv');
    await checkReportFile(file, false);
    await writeFile(file, 'an older and much longer report\n'.repeat(100));
    await checkReportFile(file, false);
    const stdout = new PassThrough();
    const output = { stdout, note: () => undefined };
    await writeCsvReport(output, file, rows);
    expect((await readFile(file, 'utf8')).split('\r\n')).toEqual(lines);
    await writeCsvReport(output, '-', rows);
    expect(String(stdout.read()).split('\r\n')).toEqual(lines);
    await rm(directory, { recursive: true });
  });

  test('is refused before anything is sent if it cannot be written', async () => {
    await expect(checkReportFile('/nowhere/report.csv', false)).rejects.toThrow('cannot write /nowhere/report.csv');
    await expect(checkReportFile('-', true)).rejects.toThrow('both write to stdout');
  });
});
