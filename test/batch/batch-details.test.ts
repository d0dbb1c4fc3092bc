import { describe, expect, test } from 'vitest';
import { describeBatch } from '../../src/batch/batch-details.js';
import type { BatchStatus } from '../../src/contract/index.js';

const nowMs = Date.UTC(2026, 0, 2, 12);
const running: BatchStatus = {
  ...{ batchId: 'nightly', total: 30, waitingToStart: 3, open: 5, completed: 20, archived: 0, failed: 1, errors: 1 },
  ...{ unknown: 0, errorsByType: { JobNotFound: 1 }, maxOpen: 5, sealed: true, cancelled: false, ended: false },
  ...{ parts: 1, startedAt: '2026-01-01T23:00:00.000Z', lastEndedAt: '2026-01-02T11:59:00.000Z' },
};
const noneLeft = { open: 0, waitingToStart: 0 };

/** Expects that people read this headline, and what they can do. */
function expectDescription(change: Partial<BatchStatus>, { headline, toDo }: { headline: string; toDo: string }): void {
  const text = describeBatch({ ...running, ...change }, [], nowMs);
  expect(text).toContain(`**${headline}**`);
  expect(text).toContain(`\n- to do: ${toDo}`);
}

describe('the description of a batch', () => {
  test('says how to see what a running batch waits for', () => {
    expectDescription(
      {},
      { headline: '22 of 30 ended', toDo: 'nothing. What it waits for: `follow-up batch status nightly`' },
    );
  });

  test('asks for nothing while the batch is being cancelled', () => {
    expectDescription(
      { cancelled: true },
      { headline: '22 of 30 ended, being cancelled', toDo: 'nothing. What it waits for' },
    );
  });

  test('names the commands that continue or cancel a held batch', () => {
    expectDescription(
      { hold: { name: 'canary', reason: 'the canary has ended', at: '2026-01-02T11:58:00.000Z' } },
      {
        headline: '22 of 30 ended, held (canary)',
        toDo: '`follow-up batch continue nightly` or `follow-up batch cancel nightly`',
      },
    );
  });

  test('says how to add the rest of a list if all items so far have ended', () => {
    expectDescription(
      { sealed: false, ...noneLeft },
      { headline: '30 of 30 ended, more items may come', toDo: 'to add the rest of its list, run the same' },
    );
  });

  test('asks for a look at the jobs whose delivery is unknown', () => {
    expectDescription(
      { ended: true, ...noneLeft, unknown: 1 },
      { headline: '30 of 30 ended', toDo: 'look at the jobs whose delivery is unknown, then' },
    );
  });

  test('names the command that retries failed items', () => {
    expectDescription(
      { ended: true, ...noneLeft },
      {
        headline: '30 of 30 ended',
        toDo: 'to retry the failed items: `follow-up batch retry nightly --only failed`',
      },
    );
  });

  test('asks for nothing if all items have completed', () => {
    expectDescription(
      { ended: true, ...noneLeft, failed: 0, errors: 0, errorsByType: {} },
      { headline: '30 of 30 ended', toDo: 'nothing\n' },
    );
  });

  test('lists failed items from 1, each with an error that cannot break the Markdown', () => {
    const error = { type: 'MessageRejected', message: 'no | `way`\n# at all', delivered: 'no' } as const;
    const item = { index: 0, projectId: 'p', jobId: 'a', workflowId: 'follow-up/p/a/nightly:0', error };
    expect(describeBatch(running, [item], nowMs)).toContain(
      '\n- item 1, `follow-up/p/a/nightly:0`: the message was not delivered, `MessageRejected: no |  way  # at all`\n',
    );
  });
});
