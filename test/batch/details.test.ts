import { expect, test } from 'vitest';
import { describeBatch, describePart } from '../../src/batch/details.js';
import { Part } from '../../src/batch/part.js';
import type { BatchStatus } from '../../src/contract/index.js';

const nowMs = Date.UTC(2026, 0, 2, 12);
const running: BatchStatus = {
  batchId: 'nightly',
  total: 30,
  waitingToStart: 3,
  open: 5,
  completed: 20,
  archived: 0,
  failed: 1,
  errors: 1,
  unknown: 0,
  errorsByType: { JobNotFound: 1 },
  maxOpen: 5,
  sealed: true,
  cancelled: false,
  ended: false,
  parts: 1,
  startedAt: '2026-01-01T23:00:00.000Z',
  lastEndedAt: '2026-01-02T11:59:00.000Z',
};
const items = [
  {
    index: 0,
    projectId: 'p',
    jobId: 'a',
    workflowId: 'follow-up/p/a/nightly:0',
    error: { type: 'JobNotFound', message: 'no such job', delivered: 'no' },
  },
  { index: 7, projectId: 'p', jobId: 'b', workflowId: 'follow-up/p/b/nightly:7', status: 'failed' },
] as const;

test('a running batch shows its counts and its items without success, numbered from 1', () => {
  expect(describeBatch(running, items, nowMs)).toBe(`**22 of 30 ended**

- completed: 20
- agent jobs that failed: 1
- errors \`JobNotFound\`: 1
- open: 5, at most 5
- waiting to start: 3
- started: 2026-01-01 23:00:00 UTC
- latest end: 11:59:00 UTC
- to do: nothing. What it waits for: \`follow-up batch status nightly\`

**Without success**

- item 1, \`follow-up/p/a/nightly:0\`: the message was not delivered, \`JobNotFound: no such job\`
- item 8, \`follow-up/p/b/nightly:7\`: the agent job failed

_As of 2026-01-02 12:00:00 UTC._`);
});

const states: [what: string, status: Partial<BatchStatus>, headline: string, step: string][] = [
  ['is being cancelled', { cancelled: true }, '22 of 30 ended, being cancelled', 'nothing. What it waits for'],
  ['accepts more items', { sealed: false }, '22 of 30 ended, more items may come', 'nothing. What it waits for'],
  [
    'waits for the rest of its list',
    { sealed: false, open: 0, waitingToStart: 0 },
    '30 of 30 ended, more items may come',
    'if no more items will be added: run the same `follow-up batch run` again, or `follow-up batch cancel nightly`',
  ],
  [
    'has ended with unknown deliveries',
    { ended: true, open: 0, waitingToStart: 0, unknown: 1 },
    '30 of 30 ended',
    'look at the jobs whose delivery is unknown, then: `follow-up batch retry nightly --only unknown`',
  ],
  [
    'has ended with failures',
    { ended: true, open: 0, waitingToStart: 0, cancelled: true },
    '30 of 30 ended, cancelled',
    'to retry the failed items: `follow-up batch retry nightly --only failed`',
  ],
  [
    'has ended without failures',
    { ended: true, open: 0, waitingToStart: 0, failed: 0, errors: 0, errorsByType: {} },
    '30 of 30 ended',
    'nothing',
  ],
];
test.each(states)('a batch that %s says what to do', (_what, status, headline, step) => {
  const lines = describeBatch({ ...running, ...status }, [], nowMs).split('\n');
  expect(lines[0]).toBe(`**${headline}**`);
  expect(lines.find((line) => line.startsWith('- to do: '))).toContain(`- to do: ${step}`);
});

test('a held batch says since when and why, and how to go on', () => {
  const hold = {
    name: 'canary',
    reason: 'the canary has ended: 2 of 30 items',
    at: '2026-01-02T11:58:00.000Z',
  } as const;
  const text = describeBatch({ ...running, hold }, [], nowMs);
  expect(text).toContain('**22 of 30 ended, held (canary)**');
  expect(text).toContain('- held: the canary has ended: 2 of 30 items, since 11:58:00 UTC');
  expect(text).toContain('- to do: `follow-up batch continue nightly` or `follow-up batch cancel nightly`');
});

test('a part numbers its items from 1 and names its batch', () => {
  const item = (jobId: string) => ({ projectId: 'p', jobId, prompt: 'x' });
  const input = {
    batchId: 'nightly',
    part: 1,
    first: 250,
    template: {},
    items: [item('a'), item('b'), item('c')],
    hash: 'h',
    order: { number: 1, share: 4 },
  };
  const part = new Part(input);
  part.start();
  part.end(0, { status: 'completed', prLink: null });
  expect(describePart(part, input, nowMs)).toBe(`**1 of 3 ended**, 2 open, at most 4

- items: 251 to 253 of batch \`nightly\`
- to do: nothing here. The batch decides: \`follow-up-batch/nightly\`

_As of 2026-01-02 12:00:00 UTC._`);
});
