import { expect, test } from 'vitest';
import { describeBatch } from '../../src/batch/batch-details.js';
import type { BatchStatus } from '../../src/contract/index.js';

const nowMs = Date.UTC(2026, 0, 2, 12);
const running: BatchStatus = {
  ...{ batchId: 'nightly', total: 30, waitingToStart: 3, open: 5, completed: 20, archived: 0, failed: 1, errors: 1 },
  ...{ unknown: 0, errorsByType: { JobNotFound: 1 }, maxOpen: 5, sealed: true, cancelled: false, ended: false },
  ...{ parts: 1, startedAt: '2026-01-01T23:00:00.000Z', lastEndedAt: '2026-01-02T11:59:00.000Z' },
};
const over = { open: 0, waitingToStart: 0 };
const hold = { name: 'canary', reason: 'the canary has ended', at: '2026-01-02T11:58:00.000Z' } as const;

test.each<[status: Partial<BatchStatus>, headline: string, step: string]>([
  [{}, '22 of 30 ended', 'nothing. What it waits for: `follow-up batch status nightly`'],
  [{ cancelled: true }, '22 of 30 ended, being cancelled', 'nothing. What it waits for'],
  [{ hold }, '22 of 30 ended, held (canary)', '`follow-up batch continue nightly` or `follow-up batch cancel nightly`'],
  [{ sealed: false, ...over }, '30 of 30 ended, more items may come', 'to add the rest of its list, run the same'],
  [{ ended: true, ...over, unknown: 1 }, '30 of 30 ended', 'look at the jobs whose delivery is unknown, then'],
  [
    { ended: true, ...over },
    '30 of 30 ended',
    'to retry the failed items: `follow-up batch retry nightly --only failed`',
  ],
  [{ ended: true, ...over, failed: 0, errors: 0, errorsByType: {} }, '30 of 30 ended', 'nothing'],
])('a batch with %j says what to do', (status, headline, step) => {
  const text = describeBatch({ ...running, ...status }, [], nowMs);
  expect(text).toContain(`**${headline}**`);
  expect(text).toContain(`\n- to do: ${step}`);
});

test('errors are Markdown that their texts cannot break, and items are numbered from 1', () => {
  const error = { type: 'MessageRejected', message: 'no | `way`\n# at all', delivered: 'no' } as const;
  const item = { index: 0, projectId: 'p', jobId: 'a', workflowId: 'follow-up/p/a/nightly:0', error };
  expect(describeBatch(running, [item], nowMs)).toContain(
    '\n- item 1, `follow-up/p/a/nightly:0`: the message was not delivered, `MessageRejected: no |  way  # at all`\n',
  );
});
