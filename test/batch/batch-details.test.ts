import { describe, expect, test } from 'vitest';
import { describeBatch } from '../../src/batch/batch-details.js';
import { toMarkdown } from '../../src/common/index.js';
import type { BatchItem, BatchStatus } from '../../src/contract/index.js';

const nowMs = Date.UTC(2026, 0, 2, 12);
const running: BatchStatus = {
  ...{ batchId: 'nightly', total: 30, waitingToStart: 3, open: 5, completed: 20, archived: 0, failed: 1, errors: 1 },
  ...{ unknown: 0, errorsByType: { JobNotFound: 1 }, maxOpen: 5, sealed: true, cancelled: false, ended: false },
  ...{ parts: 1, startedAt: '2026-01-01T23:00:00.000Z', lastEndedAt: '2026-01-02T11:59:00.000Z' },
};
const noneLeft = { open: 0, waitingToStart: 0, completed: 28 };

/** What the Temporal UI shows. */
function detailsOf(change: Partial<BatchStatus>, failures: readonly BatchItem[] = []): string {
  return toMarkdown((at) => describeBatch({ ...running, ...change }, failures, at), nowMs);
}

/** Expects that people read this headline, and what they can do. */
function expectDescription(change: Partial<BatchStatus>, { headline, toDo }: { headline: string; toDo: string }): void {
  const text = detailsOf(change);
  expect(text).toContain(`**${headline}**`);
  expect(text).toContain(`\n- to do: ${toDo}`);
}

describe('the description of a batch', () => {
  test('says how to see what a running batch waits for now', () => {
    expectDescription({}, { headline: '22 of 30 ended', toDo: 'no action is needed\n' });
    expect(detailsOf({})).toMatch(/\n_As of 2026-01-02 12:00:00 UTC\._ Newer: `follow-up batch status nightly`$/);
  });

  test('asks for nothing while the batch is being cancelled', () => {
    expectDescription(
      { cancelled: true },
      { headline: '22 of 30 ended, being cancelled', toDo: 'no action is needed\n' },
    );
  });

  test('names the commands that continue or cancel a held batch', () => {
    expectDescription(
      { hold: { name: 'canary', reason: 'the canary has ended', at: '2026-01-02T11:58:00.000Z' } },
      {
        headline: '22 of 30 ended, held since 11:58:00 UTC: the canary has ended',
        toDo: 'to go on: `follow-up batch continue nightly`; or, to end it: `follow-up batch cancel nightly`',
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
      { headline: '30 of 30 ended', toDo: 'look at the jobs whose delivery is unknown; then' },
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
    const details = detailsOf({ ended: true, ...noneLeft, completed: 30, failed: 0, errors: 0, errorsByType: {} });
    expect(details).toContain('**30 of 30 ended**');
    expect(details).not.toContain('to do');
  });

  test('lists failed items by their ids, each with an error that cannot break the Markdown', () => {
    const error = { type: 'MessageRejected', message: 'no | `way`\n# at all', delivered: 'no' } as const;
    const item = { index: 0, projectId: 'p', jobId: 'a', workflowId: 'follow-up/p/a/nightly:0', error };
    expect(detailsOf({}, [item])).toContain(
      "\n- `follow-up/p/a/nightly:0`: not delivered, `MessageRejected: no | 'way' # at all`\n",
    );
  });

  test('counts what has ended by how, and says how many messages may have been delivered', () => {
    const ends = { archived: 2, errors: 3, unknown: 1, errorsByType: { JobNotFound: 2, DeliveryUnknown: 1 } };
    expect(detailsOf(ends)).toContain(
      '- completed: 20\n- archived: 2\n- agent job failed: 1\n' +
        '- no result: 3 (JobNotFound 2, DeliveryUnknown 1; 1 possibly delivered)\n- open: 5\n- not started: 3\n' +
        '- open at most: 5\n- started: 2026-01-01 23:00:00 UTC\n- latest end: 11:59:00 UTC\n',
    );
  });

  test('says how to see the failed items that it does not list', () => {
    expect(detailsOf({})).toContain('\n- and 2 more: `follow-up batch status nightly --json`\n');
  });
});
