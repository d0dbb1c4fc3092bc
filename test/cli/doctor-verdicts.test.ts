import { expect, test } from 'vitest';
import {
  checkOfTrouble,
  judgeAgreement,
  judgeBatch,
  judgeBudget,
  judgeRetention,
  judgeVersioning,
} from '../../src/cli/doctor-verdicts.js';
import type { BatchStatus, BudgetStatus } from '../../src/contract/index.js';

const nowMs = Date.UTC(2026, 0, 2, 12);
const minutesAgo = (minutes: number) => new Date(nowMs - minutes * 60_000).toISOString();
const text = (part: string | RegExp) => expect.stringMatching(part) as string;

const batch: BatchStatus = {
  ...{ batchId: 'nightly', total: 30, waitingToStart: 0, open: 0, completed: 30, archived: 0, failed: 0, errors: 0 },
  ...{ unknown: 0, errorsByType: {}, maxOpen: 5, sealed: false, cancelled: false, ended: false, parts: 1 },
  ...{ startedAt: minutesAgo(60), lastEndedAt: minutesAgo(11) },
};
const hold = { name: 'canary', reason: 'the canary has ended: 5 of 30 items', at: minutesAgo(2) } as const;

test.each<[what: string, Partial<BatchStatus>, finding: object]>([
  [
    'waits for the rest of its list',
    {},
    {
      since: minutesAgo(11),
      message: text('its 30 items have ended, and no others were added'),
      fix: text('batch cancel nightly'),
    },
  ],
  ['never had an item', { total: 0, completed: 0, lastEndedAt: undefined }, { since: minutesAgo(60) }],
  [
    'is held',
    { sealed: true, waitingToStart: 25, hold },
    { since: hold.at, message: text(/held \(canary\): the canary has/), fix: text('continue nightly') },
  ],
])('the doctor warns of a batch that %s', (_what, more, finding) => {
  const warning = { name: 'batch', status: 'warning', why: expect.any(String) };
  expect(judgeBatch({ ...batch, ...more }, nowMs)).toMatchObject([{ ...warning, ...finding }]);
});

test.each<[what: string, Partial<BatchStatus>]>([
  ['is sealed', { sealed: true }],
  ['has ended', { ended: true }],
  ['has an open item', { open: 1, completed: 29 }],
  ['has an item that has not been started', { waitingToStart: 1, completed: 29 }],
  ['has an item that has just ended', { lastEndedAt: minutesAgo(9) }],
])('the doctor does not warn of a batch that %s', (_what, more) => {
  expect(judgeBatch({ ...batch, ...more }, nowMs)).toEqual([]);
});

const budget: BudgetStatus = {
  ...{ projectId: 'p', limit: 100, windowMs: 3_600_000, reserve: 0, used: 0, underWay: 0, lastSends: [] },
  ...{ remembersSince: minutesAgo(60), waiting: [], waitingTotal: 2, waitingInBatchLane: 0, waitingForJob: 0 },
};
const pausedBy = (...reasons: NonNullable<BudgetStatus['paused']>['reasons']) => ({
  paused: { reasons, since: minutesAgo(5) },
});

test('the doctor reports nothing about a budget that sends', () => {
  expect(judgeBudget(budget)).toEqual([]);
});

test.each<[what: string, Partial<BudgetStatus>, finding: object]>([
  ['is paused by an operator', pausedBy('operator'), { status: 'warning', fix: 'follow-up budget resume p' }],
  [
    'is paused because the service refuses the API key',
    pausedBy('credentials'),
    { fix: text(/check the API key.*budget resume p$/) },
  ],
  [
    'is paused because the service asks for a payment',
    pausedBy('payment'),
    { fix: text(/account at the service.*budget resume p$/), since: minutesAgo(5) },
  ],
  ['is paused because the service answers 429', pausedBy('limited'), { status: 'note' }],
  ['is paused for two reasons', pausedBy('operator', 'payment'), { status: 'warning', fix: text('account') }],
  ['has the limit 0', { limit: 0 }, { status: 'warning', fix: 'follow-up budget set p --limit <messages>' }],
  ['counts earlier sends', { isCounting: true }, { status: 'note', message: text('is counting earlier sends') }],
  ['spaces its messages', { spacingMs: 36_000 }, { status: 'note', message: text('one message every 36 s') }],
  [
    'is paused because the service gives no clear answers',
    pausedBy('outage'),
    { status: 'warning', fix: text(/check the service.*budget resume p$/) },
  ],
])('the doctor reports a budget that %s', (_what, more, finding) => {
  expect(judgeBudget({ ...budget, ...more })).toMatchObject([finding]);
});

test.each([
  ['temporal.example:7233', 24, 'warning', text('--namespace ns --retention 72h')],
  ['localhost:7233', 24, 'note', undefined],
  ['temporal.example:7233', 72, 'ok', undefined],
])('at %s, the doctor reports a retention of %i h as "%s"', (address, hours, status, fix) => {
  const found = judgeRetention({ namespace: 'ns', address }, hours * 3_600_000);
  expect(found).toMatchObject({ name: 'namespace', status });
  expect(found.fix).toEqual(fix);
});

test.each([
  ['project-budget/batch', 'budget', 'it is blocked'],
  ['follow-up-batch/nightly/0-x', 'batch', 'it is blocked'],
  ['follow-up/batch/job/key', 'follow-up', 'it is blocked'],
  ['follow-up-webhook/batch/id', 'webhook', 'its receiver does not get it'],
])('the doctor reports the trouble of %s as an error of a %s', (workflowId, name, why) => {
  const check = checkOfTrouble({ workflowId, what: 'waits', fix: 'help' });
  expect(check).toMatchObject({ name, status: 'error', subject: workflowId, why: text(why), fix: 'help' });
});

test('workers that use different services are an error, and different bounds a warning; both name who differs', () => {
  const worker = (name: string, address: string, bounds: string) => ({ name, pid: 1, host: name, address, bounds });
  const [one, two] = [worker('1@one', 'a', 'x'), worker('1@two', 'a', 'x')];
  expect(judgeAgreement([one, two])).toEqual([]);
  const found = judgeAgreement([one, two, worker('1@three', 'b', 'y')]);
  expect(found.map(({ status, message }) => [status, message])).toEqual([
    ['error', 'AGENT_JOBS_BASE_URL differs: 1@one, 1@two | 1@three'],
    ['warning', expect.stringMatching(/^FOLLOW_UP_PROJECTS, .* differs: 1@one, 1@two \| 1@three$/)],
  ]);
});

test.each([
  ['1.31.2', true, 1],
  ['1.32.0', true, 0],
  ['2.0.0', true, 0],
  ['1.29.1', undefined, 0],
])(
  'on server %s, with versioned workers: %s, the doctor warns %i times of Worker Versioning',
  (serverVersion, isVersioned, count) => {
    const poller = { identity: 'w', ...(isVersioned && { isVersioned }) };
    const taskQueues = [{ taskQueue: 'follow-ups', type: 'workflow' as const, pollers: [poller] }];
    const checks = judgeVersioning({ serverVersion, taskQueues });
    const message = text('needs server 1.32 or newer; this one is 1.31.2');
    expect(checks).toMatchObject(Array.from({ length: count }, () => ({ status: 'warning', message })));
  },
);
