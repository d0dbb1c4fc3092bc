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
const second: BudgetWaiter = { workflowId, lane: 'interactive', position: 2 };
const secondExpected: BudgetWaiter = { ...second, expectedAt: at(60_000) };
/** What a follow-up shows when its budget says this of its place in line. */
function withPlace(
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
const pausedProgress = { ...facts, state: 'blocked', waitReason: 'paused', pause: { by: 'operator' } } as const;
const currentPlace = { ...facts, ...slot, position: 2, expectedSendAt: at(60_000) };
const lastKnown = { ...lastProgress, asOf: at(-600_000) };
const blocked = { ...facts, state: 'blocked', position: 2 };

test.each<[what: string, shown: object, expected: object]>([
  ['shows its current place', withPlace(secondExpected), currentPlace],
  ['shows no expected time if the budget gives none', withPlace(second), { ...facts, ...slot, position: 2 }],
  ['shows what it last received if the budget is silent', withBudget(undefined, workflowId, lastProgress), lastKnown],
  ['shows what it last received if the budget does not know it', withPlace(undefined), lastKnown],
  [
    'is blocked if its message alone is refused',
    withPlace({ ...second, refusal }),
    { ...blocked, waitReason: 'payment', pause: { by: 'message', until: refusal.until } },
  ],
  [
    'is blocked if its budget is stopped',
    withBudget('stopped', workflowId, lastProgress),
    { ...facts, state: 'blocked', waitReason: 'budget-stopped' },
  ],
  [
    'is blocked by an operator',
    withPlace(second, pausedBy('operator', 'limited')),
    { ...blocked, waitReason: 'paused', pause: { by: 'operator', ...pause } },
  ],
  [
    'is blocked by the service',
    withPlace(second, pausedBy('limited')),
    { ...blocked, waitReason: 'limited', pause: { by: 'service', ...pause } },
  ],
  [
    'is blocked while its budget counts',
    withPlace(second, { isCounting: true }),
    { ...blocked, waitReason: 'counting' },
  ],
  ['is no longer blocked after the pause', withPlace(secondExpected, {}, pausedProgress), currentPlace],
  [
    'waits for its job while another has the turn',
    withPlace({ workflowId, lane: 'batch' }),
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
  const observed = { ...polling, polls: 5, nextPollAt, job, jobSeenAt: at(-2_000), jobStatus: 'active' };
  const { nextPollAt: _next, ...withoutNextPollAt } = observed;
  const { jobSeenAt: _seen, ...withoutJobSeenAt } = observed;
  const completed = { status: 'completed' };
  const { jobStatus: _status, ...withTurnBefore } = { ...observed, job: completed };
  const waitingForJob = { ...facts, state: 'waiting-for-job', waitReason: 'job-busy' } as const;
  const lastError = { at: at(-2_000), message: 'HTTP 500' };
  const atServer = { ...watching({ nextPollAt: at(-100) }), state: SCHEDULED, nextAttemptScheduleTime: instant(9_000) };

  test.each<[what: string, progress: FollowUpProgress, activity: object, expected: object]>([
    ['shows what the heartbeat has', polling, watching(), observed],
    [
      'does not take the turn before for its own',
      polling,
      watching({ observedActive: false, job: completed }),
      withTurnBefore,
    ],
    [
      'shows why the last poll failed',
      polling,
      watching({ lastError: 'HTTP 500' }),
      { ...withoutJobSeenAt, lastError },
    ],
    ['shows no next poll while it polls', polling, watching({ nextPollAt: at(-100) }), withoutNextPollAt],
    ['shows when the server starts the next attempt', polling, atServer, { ...observed, nextPollAt: at(9_000) }],
    [
      'counts no polls before its send',
      waitingForJob,
      watching(),
      { ...waitingForJob, nextPollAt, job, jobSeenAt: at(-2_000) },
    ],
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
])(
  'a follow-up whose ask is repeated shows its last error (%s) and the time of the next ask',
  async (_what, failure) => {
    const silent = { ...facts, state: 'blocked', waitReason: 'budget-silent' } as const;
    const asking = {
      ...{ activityType: { name: 'askForSlot' }, state: 1 },
      ...{ nextAttemptScheduleTime: instant(30_000), lastAttemptCompleteTime: instant(-30_000) },
      lastFailure: { ...failure, applicationFailureInfo: { type: 'budget-stopped' } },
    };
    const lastError = { at: at(-30_000), message };
    const expected = { ...silent, waitReason: 'budget-stopped', nextTryAt: at(30_000), lastError };
    expect(await live(silent, asking)).toEqual(expected);
  },
);
