import { type Client } from '@temporalio/client';
import { defaultPayloadConverter, type Payload, type PayloadCodec } from '@temporalio/common';
import { describe, expect, test } from 'vitest';
import { bringUpToDate, joinPlace, type LiveProgress } from '../../src/client/progress.js';
import type { BudgetStatus, BudgetWaiter, FollowUpProgress } from '../../src/contract/index.js';
import type { Seen } from '../../src/follow-up/watch.js';

const NOW_MS = Date.parse('2026-11-22T12:00:00Z');
const at = (ms: number) => new Date(NOW_MS + ms).toISOString();
const workflowId = 'follow-up/p/j/k';
const facts = { projectId: 'p', jobId: 'j', learnedAt: at(-600_000), polls: 0 };
/** What the budget told a follow-up ten minutes ago. */
const told = (expectedInMs: number) =>
  ({
    ...facts,
    state: 'waiting-for-budget',
    waitReason: 'slot',
    position: 5,
    expectedSendAt: at(expectedInMs),
  }) as const;
const budget = (more: Partial<BudgetStatus> = {}): BudgetStatus => ({
  projectId: 'p',
  limit: 100,
  windowMs: 3_600_000,
  reserve: 0,
  used: 100,
  unsettled: 0,
  remembersSince: at(-3_600_000),
  waiting: [],
  waitingTotal: 1,
  waitingInBatchLane: 0,
  waitingForJob: 0,
  lastSends: [],
  ...more,
});
/** What the budget says of a follow-up. */
const joined = (
  place: BudgetWaiter | undefined,
  progress: Parameters<typeof joinPlace>[2],
  more: Partial<BudgetStatus> = {},
) => joinPlace(budget({ waiting: place ? [place] : [], ...more }), workflowId, progress);
const waiter: BudgetWaiter = { workflowId, lane: 'interactive', position: 2, expectedAt: at(60_000) };

describe('a follow-up that waits in line', () => {
  test('shows its current place, not the one that it was told', () => {
    const live = joined(waiter, told(-30_000));
    expect(live).toMatchObject({ state: 'waiting-for-budget', position: 2, expectedSendAt: at(60_000) });
    expect(live).not.toHaveProperty('asOf');
  });

  test('has no expected time if the budget gives none', () => {
    const { expectedAt: _expectedAt, ...without } = waiter;
    expect(joined(without, told(1_000))).not.toHaveProperty('expectedSendAt');
  });

  test('is blocked if the service refuses its message alone, and shows when it is tried again', () => {
    const refusal = { reason: 'payment', until: at(300_000) } as const;
    const live = joined({ workflowId, lane: 'interactive', position: 1, refusal }, told(1_000));
    const pause = { by: 'service', until: refusal.until };
    expect(live).toMatchObject({ state: 'blocked', waitReason: 'payment', pause, position: 1 });
    expect(live).not.toHaveProperty('expectedSendAt');
  });

  test('keeps what it was told if the budget does not answer, and says how old that is', () => {
    expect(joinPlace(undefined, workflowId, told(-10_000))).toEqual({ ...told(-10_000), asOf: at(-600_000) });
  });

  test('keeps what it was told if the budget does not know it, and says how old that is', () => {
    expect(joined(undefined, told(60_000))).toMatchObject({ position: 5, asOf: at(-600_000) });
  });

  test('is blocked if its budget is stopped, which nobody tells it', () => {
    const live = joinPlace('stopped', workflowId, told(60_000));
    expect(live).toMatchObject({ state: 'blocked', waitReason: 'budget-stopped' });
    expect(live).not.toHaveProperty('position');
  });

  const { expectedAt: _expectedAt, ...unexpected } = waiter;
  test.each([
    [['operator'], 'paused', 'operator'],
    [['operator', 'limited'], 'paused', 'operator'],
    [['limited'], 'limited', 'service'],
    [['credentials'], 'credentials', 'service'],
    [['payment'], 'payment', 'service'],
  ] as const)('is blocked at its place while %j pauses its project; the reason is %s', (reasons, waitReason, by) => {
    const paused = { reasons: [...reasons], since: at(-1_000), until: at(9_000), note: 'why' };
    const live = joined(unexpected, told(60_000), { paused });
    const pause = { by, until: at(9_000), note: 'why' };
    expect(live).toMatchObject({ state: 'blocked', waitReason, position: 2, pause });
    expect(live).not.toHaveProperty('expectedSendAt');
  });

  test('is blocked while its budget counts', () => {
    const live = joined(unexpected, told(60_000), { isCounting: true });
    expect(live).toMatchObject({ state: 'blocked', waitReason: 'counting', position: 2 });
  });

  test('is blocked no more when the pause is over, of which only the first in line are told', () => {
    const pause = { by: 'operator' } as const;
    const paused = { ...facts, state: 'blocked', waitReason: 'paused', pause } as const;
    const live = joined(waiter, paused);
    expect(live).toMatchObject({ state: 'waiting-for-budget', waitReason: 'slot', position: 2 });
    expect(live).not.toHaveProperty('pause');
  });

  test('waits for its job while another follow-up has the turn', () => {
    const live = joined({ workflowId, lane: 'batch' }, told(60_000));
    expect(live).toMatchObject({ state: 'waiting-for-job', waitReason: 'job-busy' });
    expect(live).not.toHaveProperty('position');
  });
});

/** Stands for a codec that encrypts. */
const reversing: PayloadCodec = {
  encode: async (payloads) => payloads.map(reverse),
  decode: async (payloads) => payloads.map(reverse),
};
const reverse = ({ data, ...payload }: Payload): Payload => ({ ...payload, data: Buffer.from(data ?? []).reverse() });
const encoded = (value: unknown): Payload => reverse(defaultPayloadConverter.toPayload(value));
const instant = (ms: number) => ({ seconds: { toNumber: () => (NOW_MS + ms) / 1_000 }, nanos: 0 });

/** A client of a server that describes a follow-up with that pending activity. */
function clientOf(activity: Record<string, unknown>): Client {
  const described = {
    workflowId,
    status: { name: 'RUNNING' },
    raw: { pendingActivities: [{ activityId: '7', ...activity }] },
  };
  const client = {
    options: {
      namespace: 'default',
      loadedDataConverter: { payloadConverter: defaultPayloadConverter, payloadCodecs: [reversing] },
    },
    withDeadline: (_deadline: number, call: () => unknown) => call(),
    workflow: { getHandle: () => ({ describe: async () => described }) },
  };
  return client as unknown as Client;
}
const live = (progress: FollowUpProgress, activity: Record<string, unknown>): Promise<LiveProgress> =>
  bringUpToDate(clientOf(activity), workflowId, progress, NOW_MS);

describe('a follow-up that watches its job', () => {
  const STARTED = 2;
  const seen: Seen = {
    polls: 3,
    nextPollAt: at(20_000),
    job: { status: 'active', prLink: 'https://git.example/pull/1' },
    observedActive: true,
    intervalMs: 5_000,
  };
  const watching = (more: Partial<Seen> = {}, state = STARTED) => ({
    activityType: { name: 'watchJob' },
    state,
    scheduledTime: instant(-60_000),
    lastHeartbeatTime: instant(-2_000),
    heartbeatDetails: { payloads: [encoded({ ...seen, ...more })] },
  });
  const polling = { ...facts, state: 'polling', sentAt: at(-60_000), polls: 2 } as const;

  test('shows what the heartbeat has: polls, the next one, and the job', async () => {
    expect(await live(polling, watching())).toEqual({
      ...polling,
      polls: 5,
      nextPollAt: at(20_000),
      job: seen.job,
      jobSeenAt: at(-2_000),
      jobStatus: 'active',
    });
  });

  test('does not take the turn before for its own', async () => {
    const progress = await live(polling, watching({ observedActive: false, job: { status: 'completed' } }));
    expect(progress).toMatchObject({ job: { status: 'completed' } });
    expect(progress).not.toHaveProperty('jobStatus');
  });

  test('shows why the last poll failed, and does not say that the job was seen then', async () => {
    const progress = await live(polling, watching({ lastError: 'HTTP 500' }));
    expect(progress).toMatchObject({ lastError: { at: at(-2_000), message: 'HTTP 500' }, job: seen.job });
    expect(progress).not.toHaveProperty('jobSeenAt');
  });

  test('has no next poll while it polls', async () => {
    expect(await live(polling, watching({ nextPollAt: at(-100) }))).not.toHaveProperty('nextPollAt');
  });

  test('shows when the server starts the next attempt', async () => {
    const later = { ...watching({ nextPollAt: at(-100) }, 1), nextAttemptScheduleTime: instant(9_000) };
    expect(await live(polling, later)).toMatchObject({ nextPollAt: at(9_000) });
  });

  test('before its send, counts no polls', async () => {
    const progress = await live({ ...facts, state: 'waiting-for-job', waitReason: 'job-busy' }, watching());
    expect(progress).toMatchObject({ state: 'waiting-for-job', polls: 0, nextPollAt: at(20_000), job: seen.job });
    expect(progress).not.toHaveProperty('jobStatus');
  });

  test('shows what its workflow knows if the heartbeat cannot be read', async () => {
    const foreign = { ...watching(), heartbeatDetails: { payloads: [defaultPayloadConverter.toPayload(seen)] } };
    expect(await live(polling, foreign)).toEqual(polling);
  });
});

describe('a follow-up whose ask is repeated', () => {
  const blocked = { ...facts, state: 'blocked', waitReason: 'budget-silent' } as const;
  const asking = {
    activityType: { name: 'askForSlot' },
    state: 1,
    scheduledTime: instant(-60_000),
    nextAttemptScheduleTime: instant(30_000),
    lastAttemptCompleteTime: instant(-30_000),
    lastFailure: { message: 'it was stopped', applicationFailureInfo: { type: 'budget-stopped' } },
  };
  const lastError = { at: at(-30_000), message: 'it was stopped' };

  test('shows the reason and the error of the last try, and when the next one is', async () => {
    const expected = { ...blocked, waitReason: 'budget-stopped', nextTryAt: at(30_000), lastError };
    expect(await live(blocked, asking)).toEqual(expected);
  });

  test('also if the message is encoded', async () => {
    const { applicationFailureInfo } = asking.lastFailure;
    const encodedAttributes = encoded({ message: 'it was stopped', stack_trace: '' });
    const lastFailure = { message: 'Encoded failure', applicationFailureInfo, encodedAttributes };
    expect(await live(blocked, { ...asking, lastFailure })).toMatchObject({ lastError });
  });
});
