import { type Client } from '@temporalio/client';
import { defaultPayloadConverter, type Payload, type PayloadCodec } from '@temporalio/common';
import { describe, expect, test } from 'vitest';
import { bringUpToDate, withBudget } from '../../src/client/live-progress.js';
import type { BudgetStatus, BudgetWaiter, FollowUpProgress } from '../../src/contract/index.js';
import type { Observation } from '../../src/follow-up/judge.js';

const NOW_MS = Date.parse('2026-11-22T12:00:00Z');
const at = (ms: number) => new Date(NOW_MS + ms).toISOString();
const workflowId = 'follow-up/p/j/k';
const facts = { projectId: 'p', jobId: 'j', learnedAt: at(-600_000), polls: 0 };
const slot = { state: 'waiting-for-budget', waitReason: 'slot' } as const;
/** What the budget replied to a follow-up ten minutes ago. */
const lastProgress = { ...facts, ...slot, position: 5, expectedSendAt: at(-30_000) };
const first: BudgetWaiter = { workflowId, lane: 'interactive', position: 2 };
const waiter: BudgetWaiter = { ...first, expectedAt: at(60_000) };
/** What a follow-up shows when its budget says this of it. */
function joined(
  place: BudgetWaiter | undefined,
  more: Partial<BudgetStatus> = {},
  progress: Parameters<typeof withBudget>[2] = lastProgress,
) {
  const counts = { limit: 100, windowMs: 3_600_000, reserve: 0, used: 100, underWay: 0, waitingTotal: 1 };
  const waiting = { waiting: place ? [place] : [], waitingInBatchLane: 0, waitingForJob: 0, lastSends: [] };
  const status: BudgetStatus = { projectId: 'p', ...counts, ...waiting, remembersSince: at(-3_600_000), ...more };
  return withBudget(status, workflowId, progress);
}

const pause = { until: at(9_000), note: 'why' };
const pausedBy = (...reasons: NonNullable<BudgetStatus['paused']>['reasons']) => ({
  paused: { reasons, since: at(-1_000), ...pause },
});
const refusal = { reason: 'payment', until: at(300_000) } as const;
const was = { ...facts, state: 'blocked', waitReason: 'paused', pause: { by: 'operator' } } as const;
const current = { ...facts, ...slot, position: 2, expectedSendAt: at(60_000) };
const outdated = { ...lastProgress, asOf: at(-600_000) };
const blocked = { ...facts, state: 'blocked', position: 2 };
const byService = { by: 'service', ...pause };

test.each<[what: string, shown: object, expected: object]>([
  ['shows its current place', joined(waiter), current],
  ['has no expected time if the budget gives none', joined(first), { ...facts, ...slot, position: 2 }],
  ['keeps what it last received while the budget is silent', withBudget(undefined, workflowId, lastProgress), outdated],
  ['keeps what it last received if the budget does not know it', joined(undefined), outdated],
  [
    'is blocked if its message alone is refused',
    joined({ ...first, refusal }),
    { ...blocked, waitReason: 'payment', pause: { by: 'message', until: refusal.until } },
  ],
  [
    'is blocked if its budget is stopped',
    withBudget('stopped', workflowId, lastProgress),
    { ...facts, state: 'blocked', waitReason: 'budget-stopped' },
  ],
  [
    'is blocked by an operator',
    joined(first, pausedBy('operator', 'limited')),
    { ...blocked, waitReason: 'paused', pause: { by: 'operator', ...pause } },
  ],
  [
    'is blocked by the service',
    joined(first, pausedBy('limited')),
    { ...blocked, waitReason: 'limited', pause: byService },
  ],
  ['is blocked while its budget counts', joined(first, { isCounting: true }), { ...blocked, waitReason: 'counting' }],
  ['is blocked no more after the pause', joined(waiter, {}, was), current],
  [
    'waits for its job while another has the turn',
    joined({ workflowId, lane: 'batch' }),
    { ...facts, state: 'waiting-for-job', waitReason: 'job-busy' },
  ],
])('a follow-up in line %s', (_what, shown, expected) => {
  expect(shown).toEqual(expected);
});

const reverse = ({ data, ...payload }: Payload): Payload => ({ ...payload, data: Buffer.from(data ?? []).reverse() });
/** Stands for a codec that encrypts. */
const reversing: PayloadCodec = {
  encode: async (payloads) => payloads.map(reverse),
  decode: async (payloads) => payloads.map(reverse),
};
const encoded = (value: unknown): Payload => reverse(defaultPayloadConverter.toPayload(value));
const instant = (ms: number) => ({ seconds: { toNumber: () => (NOW_MS + ms) / 1_000 }, nanos: 0 });

/** What a follow-up shows that has this progress and, at the server, that pending activity. */
function live(progress: FollowUpProgress, activity: object) {
  const raw = { pendingActivities: [{ activityId: '7', scheduledTime: instant(-60_000), ...activity }] };
  const described = { workflowId, status: { name: 'RUNNING' }, raw };
  const loadedDataConverter = { payloadConverter: defaultPayloadConverter, payloadCodecs: [reversing] };
  const client = {
    options: { namespace: 'default', loadedDataConverter },
    withDeadline: (_deadline: number, call: () => unknown) => call(),
    workflow: { getHandle: () => ({ describe: async () => described }) },
  };
  return bringUpToDate(client as unknown as Client, workflowId, progress, NOW_MS);
}

describe('a follow-up that watches its job', () => {
  const [SCHEDULED, STARTED] = [1, 2];
  const job = { status: 'active', prLink: 'https://git.example/pull/1' };
  const nextPollAt = at(20_000);
  const observation: Observation = { polls: 3, nextPollAt, job, observedActive: true, intervalMs: 5_000 };
  const watching = (more: Partial<Observation> = {}, heartbeat = encoded({ ...observation, ...more })) => ({
    ...{ activityType: { name: 'watchJob' }, state: STARTED, lastHeartbeatTime: instant(-2_000) },
    heartbeatDetails: { payloads: [heartbeat] },
  });
  const polling = { ...facts, state: 'polling', sentAt: at(-60_000), polls: 2 } as const;
  const known = { ...polling, polls: 5, nextPollAt, job, jobSeenAt: at(-2_000), jobStatus: 'active' };
  const { nextPollAt: _next, ...now } = known;
  const { jobSeenAt: _seen, ...unseen } = known;
  const completed = { status: 'completed' };
  const { jobStatus: _status, ...before } = { ...known, job: completed };
  const early = { ...facts, state: 'waiting-for-job', waitReason: 'job-busy' } as const;
  const lastError = { at: at(-2_000), message: 'HTTP 500' };
  const later = { ...watching({ nextPollAt: at(-100) }), state: SCHEDULED, nextAttemptScheduleTime: instant(9_000) };

  test.each<[what: string, progress: FollowUpProgress, activity: object, expected: object]>([
    ['shows what the heartbeat has', polling, watching(), known],
    ['does not take the turn before for its own', polling, watching({ observedActive: false, job: completed }), before],
    ['shows why the last poll failed', polling, watching({ lastError: 'HTTP 500' }), { ...unseen, lastError }],
    ['has no next poll while it polls', polling, watching({ nextPollAt: at(-100) }), now],
    ['shows when the server starts the next attempt', polling, later, { ...known, nextPollAt: at(9_000) }],
    ['counts no polls before its send', early, watching(), { ...early, nextPollAt, job, jobSeenAt: at(-2_000) }],
    [
      'ignores a heartbeat that it cannot read',
      polling,
      watching({}, defaultPayloadConverter.toPayload(observation)),
      polling,
    ],
  ])('%s', async (_what, progress, activity, expected) => {
    expect(await live(progress, activity)).toEqual(expected);
  });
});

const message = 'it was stopped';
test.each([
  ['plain', { message }],
  ['encoded', { message: 'Encoded failure', encodedAttributes: encoded({ message, stack_trace: '' }) }],
])('an ask that is repeated shows its last error, which is %s, and when the next one is', async (_what, failure) => {
  const silent = { ...facts, state: 'blocked', waitReason: 'budget-silent' } as const;
  const asking = {
    ...{ activityType: { name: 'askForSlot' }, state: 1 },
    ...{ nextAttemptScheduleTime: instant(30_000), lastAttemptCompleteTime: instant(-30_000) },
    lastFailure: { ...failure, applicationFailureInfo: { type: 'budget-stopped' } },
  };
  const lastError = { at: at(-30_000), message };
  const expected = { ...silent, waitReason: 'budget-stopped', nextTryAt: at(30_000), lastError };
  expect(await live(silent, asking)).toEqual(expected);
});
