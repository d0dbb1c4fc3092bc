import { expect, test } from 'vitest';
import { judgeBatch, judgeBudget, judgeRetention } from '../../src/cli/doctor.js';
import type { BatchStatus, BudgetStatus } from '../../src/contract/index.js';

const nowMs = Date.UTC(2026, 0, 2, 12);
const minutesAgo = (minutes: number) => new Date(nowMs - minutes * 60_000).toISOString();
const status: BatchStatus = {
  batchId: 'nightly',
  total: 30,
  waitingToStart: 0,
  open: 0,
  completed: 30,
  archived: 0,
  failed: 0,
  errors: 0,
  unknown: 0,
  errorsByType: {},
  maxOpen: 5,
  sealed: false,
  cancelled: false,
  ended: false,
  parts: 1,
  startedAt: minutesAgo(60),
  lastEndedAt: minutesAgo(11),
};

test('a batch with an incomplete list is a finding ten minutes after its last item ended', () => {
  expect(judgeBatch(status, nowMs)).toMatchObject([
    {
      name: 'batch',
      status: 'warning',
      message: expect.stringContaining('its 30 items have ended, and no more were added'),
      since: minutesAgo(11),
      why: expect.any(String),
      fix: expect.stringContaining('follow-up batch cancel nightly'),
    },
  ]);
  const { lastEndedAt: _none, ...empty } = { ...status, total: 0, completed: 0 };
  expect(judgeBatch(empty, nowMs)).toMatchObject([{ since: minutesAgo(60) }]);
});

test('a batch that is held is a finding that says why, and how to go on', () => {
  const hold = { name: 'canary', reason: 'the canary has ended: 5 of 30 items', at: minutesAgo(2) } as const;
  expect(judgeBatch({ ...status, sealed: true, waitingToStart: 25, completed: 5, hold }, nowMs)).toMatchObject([
    {
      name: 'batch',
      status: 'warning',
      message: 'batch nightly is held (canary): the canary has ended: 5 of 30 items',
      since: minutesAgo(2),
      fix: 'follow-up batch continue nightly, or: follow-up batch cancel nightly',
    },
  ]);
});

test.each<[string, Partial<BatchStatus>]>([
  ['it is sealed', { sealed: true }],
  ['it has ended', { sealed: true, ended: true }],
  ['an item is open', { open: 1, completed: 29 }],
  ['an item has not been started', { waitingToStart: 1, completed: 29 }],
  ['its last item has just ended', { lastEndedAt: minutesAgo(9) }],
])('an incomplete batch is not a finding if %s', (_where, more) => {
  expect(judgeBatch({ ...status, ...more }, nowMs)).toEqual([]);
});

const budget: BudgetStatus = {
  projectId: 'p',
  limit: 100,
  windowMs: 3_600_000,
  reserve: 0,
  used: 0,
  unsettled: 0,
  remembersSince: minutesAgo(60),
  waiting: [],
  waitingTotal: 2,
  waitingInBatchLane: 0,
  waitingForJob: 0,
  lastSends: [],
};
const pausedBy = (...reasons: NonNullable<BudgetStatus['paused']>['reasons']) => ({
  paused: { reasons, since: minutesAgo(5) },
});

test.each<[string, Partial<BudgetStatus>, object[]]>([
  ['sends', {}, []],
  ['is paused by an operator', pausedBy('operator'), [{ status: 'warning', fix: 'follow-up budget resume p' }]],
  ['has a bad key', pausedBy('credentials'), [{ fix: expect.stringMatching(/valid API key.*budget resume p$/) }]],
  ['is to pay', pausedBy('payment'), [{ fix: expect.stringMatching(/402.*budget resume p$/), since: minutesAgo(5) }]],
  ['is limited', pausedBy('limited'), [{ status: 'note' }]],
  ['is paused twice', pausedBy('operator', 'payment'), [{ status: 'warning', fix: expect.stringContaining('402') }]],
  ['has the limit 0', { limit: 0 }, [{ status: 'warning', fix: 'follow-up budget set p --limit <messages>' }]],
  ['counts', { isCounting: true }, [{ status: 'note', message: expect.stringContaining('counts what was sent') }]],
  [
    'has learned a limit',
    { learnedLimit: 40 },
    [{ status: 'note', message: expect.stringContaining('40 slots are free; the service seems to accept no more') }],
  ],
])('a budget that %s leads to its findings', (_what, more, findings) => {
  const found = judgeBudget({ ...budget, ...more });
  expect(found).toHaveLength(findings.length);
  expect(found).toMatchObject(findings);
});

test.each([
  ['temporal.example:7233', 24, 'warning', expect.stringContaining('--namespace ns --retention 72h')],
  ['localhost:7233', 24, 'note', undefined],
  ['temporal.example:7233', 72, 'ok', undefined],
])('at %s, a retention of %i h is reported as %s', (address, hours, status, fix) => {
  const found = judgeRetention({ namespace: 'ns', address }, hours * 3_600_000);
  expect(found).toMatchObject({ name: 'namespace', status });
  expect(found.fix).toEqual(fix);
});
