import type { Info } from '@temporalio/activity';
import { ApplicationFailureCategory, CancelledFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { type Budgets, BudgetStoppedError } from '../../src/activities/budgets.js';
import { type ActivityDependencies, createActivities } from '../../src/activities/index.js';
import type { AgentJobsClient, GetJobOutcome, SendMessageOutcome } from '../../src/agent-jobs/index.js';
import { iso } from '../../src/common/index.js';
import type { AgentJob } from '../../src/contract/index.js';
import { firstObservation, type Observation, type Read, type WatchRequest } from '../../src/follow-up/judge.js';
import type { SendRequest, SlotRequest } from '../../src/follow-up/port.js';
import type { AskReply } from '../../src/protocol/index.js';
import { keepSecret } from '../../src/secrets/secrets.js';
import { ServerClock } from '../../src/temporal/server-clock.js';
import {
  asRead,
  done,
  earlierSend,
  failed,
  notFound,
  rest,
  START_MS,
  useVirtualTime,
  waiting,
  watchSettings,
  working,
} from '../follow-up/support.js';
import { DAY, HOUR, MINUTE, SECOND } from '../support/times.js';

useVirtualTime();
beforeEach(() => {
  // No jitter.
  vi.spyOn(Math, 'random').mockReturnValue(0.5);
});

const workflowId = 'follow-up/p/j/key';
const config = { leaseMs: 60_000, drainMs: 120_000, maxLimit: 100 };
const archived = { ...rest, status: 'archived' };
const failure = (more: object): unknown => expect.objectContaining(more);
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

interface World extends Partial<ActivityDependencies> {
  job?: () => AgentJob | Read;
  replies?: (AskReply | Error)[];
  sent?: SendMessageOutcome;
}

/** A worker whose service and budget are scripted. Its calls are noted in order. */
function worker({ job = () => rest, replies = [], sent, ...more }: World) {
  const calls: string[] = [];
  const budgets = {
    ask: vi.fn<Budgets['ask']>(async () => {
      calls.push('ask');
      const reply = replies.shift() ?? new Error('Nothing is scripted');
      if (reply instanceof Error) throw reply;
      return reply;
    }),
    report: vi.fn<Budgets['report']>(async () => void calls.push('report')),
    wasDelivered: vi.fn<Budgets['wasDelivered']>(async () => 'yes'),
    listSends: vi.fn<Budgets['listSends']>(async () => ({ sends: [], others: 7 })),
  };
  const agentJobs: ActivityDependencies['agentJobs'] = {
    getJob: async () => {
      calls.push('get');
      return asRead(job()) as GetJobOutcome;
    },
    sendMessage: async ({ mayStart }: Parameters<AgentJobsClient['sendMessage']>[0]) => {
      if (!mayStart()) return { outcome: 'notSent', message: 'too late' };
      calls.push('post');
      return sent ?? { outcome: 'sent', statusCode: 200, job: { ...working, transcript: 'long' } };
    },
  };
  const activities = createActivities({
    ...{ agentJobs, budgets, ...config, sendTimeoutMs: 30_000, maxWatches: 100 },
    ...{ ending: new AbortController().signal, linksArePrivate: false, serverClock: new ServerClock() },
    clocks: { wallMs: () => Date.now(), stopwatchMs: () => Date.now() - 5 },
    ...more,
  });
  /** Runs an activity in an attempt of its own. */
  function run<A, R>(activity: (request: A) => Promise<R>, request: A, info: Partial<Info> = {}) {
    const attempt = { scheduledTimestampMs: START_MS, currentAttemptScheduledTimestampMs: START_MS };
    const logger = new DefaultLogger('ERROR', () => undefined);
    const workflowExecution = { workflowId, runId: 'run' };
    const environment = new MockActivityEnvironment(
      { ...attempt, workflowExecution, ...structuredClone(info) },
      { logger },
    );
    const beats: unknown[] = [];
    environment.on('heartbeat', (details) => {
      calls.push('beat');
      beats.push(structuredClone(details));
    });
    const result = environment.run(activity, structuredClone(request));
    // Its failure is asserted later.
    result.catch(() => undefined);
    return { result, beats, cancel: () => environment.cancel() };
  }
  return { ...activities, run, calls, budgets, reads: () => calls.filter((call) => call === 'get').length };
}

describe('askForSlot', () => {
  const ask = { sendNumber: 2, lane: 'batch', messageTag: 'tag', mayHaveSent: true, startedAtMs: START_MS } as const;
  const request: SlotRequest = {
    projectId: 'p',
    jobId: 'j',
    whenActive: 'wait',
    isInDoubt: false,
    runId: 'run',
    ask,
  };
  const askIn = (world: World, more: Partial<SlotRequest> = {}) => {
    const given = worker(world);
    return { ...given, ...given.run(given.askForSlot, { ...request, ...more }) };
  };

  test('reads the job, then asks the budget in the name of this run, with the settings of the worker', async () => {
    const { result, calls, budgets } = askIn({ job: () => ({ ...rest, model: 'm' }), replies: [waiting()()] });
    expect(await result).toEqual({ kind: 'asked', jobBefore: rest, reply: waiting()() });
    expect(calls).toEqual(['get', 'ask']);
    const request = { ...ask, ...config, workflowId, runId: 'run', jobIs: 'at-rest' };
    expect(budgets.ask).toHaveBeenCalledWith('p', request);
    const isPrivate = askIn({ replies: [waiting()()], linksArePrivate: true });
    expect(await isPrivate.result).toMatchObject({ linksArePrivate: true });
  });

  test.each([
    ['archived', archived, { kind: 'archived', job: archived }],
    ['missing', notFound, notFound],
  ])('asks for nothing if the job is %s', async (_, job, reply) => {
    const { result, calls } = askIn({ job: () => job });
    expect([await result, calls]).toEqual([reply, ['get']]);
  });

  test('asks for a place in line behind the message that the job works on', async () => {
    const job = () => ({ ...working, transcript: 'long' });
    const { result, budgets } = askIn({ job, replies: [waiting()()] });
    expect(await result).toEqual({ kind: 'asked', unreadyJob: working, reply: waiting()() });
    expect(budgets.ask.mock.calls[0]?.[1]).toMatchObject({ jobIs: 'at-work' });
  });

  test('asks to send to a job at work if whenActive is "send"', async () => {
    const { result, budgets } = askIn({ job: () => working, replies: [waiting()()] }, { whenActive: 'send' });
    expect(await result).toMatchObject({ kind: 'asked', jobBefore: working });
    expect(budgets.ask.mock.calls[0]?.[1]).not.toHaveProperty('jobIs');
  });

  const earlier = earlierSend()();
  test.each<[string, AgentJob, AskReply, object]>([
    ['knows the send', archived, earlier, { kind: 'asked', reply: earlier }],
    ['has only a place in line', archived, waiting()(), { kind: 'archived' }],
  ])(
    'if an earlier send is in doubt, asks although the job is archived: the budget %s',
    async (_, job, reply, expected) => {
      expect(await askIn({ job: () => job, replies: [reply] }, { isInDoubt: true }).result).toMatchObject(expected);
    },
  );

  test.each([
    ['credentials', 'credentials'],
    ['limited', 'limited'],
    ['payment', 'payment'],
  ])('asks for a place in line without a baseline if the read is refused as %s', async (reason, refusal) => {
    const refused = failed(reason, { retryAfterMs: 9_000 });
    const { result, budgets } = askIn({ job: () => refused, replies: [waiting()()] });
    expect(await result).toEqual({ kind: 'asked', refusalMessage: refused.message, reply: waiting()() });
    expect(budgets.ask.mock.calls[0]?.[1]).toMatchObject({ refusal, retryAfterMs: 9_000 });
  });

  test.each([
    ['network', 'service', 9_000],
    ['rejected', 'service', undefined],
    ['no-key', 'credentials', 9_000],
  ])('blocks the follow-up if the read fails as %s, with the reason %s', async (reason, type, nextRetryDelay) => {
    const job = () => failed(reason, { ...(nextRetryDelay && { retryAfterMs: nextRetryDelay }) });
    await expect(askIn({ job }).result).rejects.toThrow(failure({ type, nonRetryable: false, nextRetryDelay }));
  });

  test('blocks the follow-up if the budget is stopped or does not reply', async () => {
    const stopped = askIn({ replies: [new BudgetStoppedError('p')] });
    await expect(stopped.result).rejects.toThrow(failure({ type: 'budget-stopped', nextRetryDelay: '1m' }));
    await expect(stopped.result).rejects.toThrow('budget restore p');
    keepSecret('abcdefghijklmnop');
    const silent = askIn({ replies: [new Error('key abcdefghijklmnop')] });
    await expect(silent.result).rejects.toThrow(failure({ type: 'budget-silent', nextRetryDelay: undefined }));
    await expect(silent.result).rejects.not.toThrow('abcdefghijklmnop');
  });
});

describe('readJob', () => {
  test.each([
    [archived, { kind: 'job', job: archived }],
    [notFound, notFound],
    [failed('limited', { retryAfterMs: 9_000 }), { refused: { refusal: 'limited', retryAfterMs: 9_000 } }],
    [failed('credentials'), { refused: { refusal: 'credentials' } }],
  ])('says whether the service refuses the project: %o', async (job, read) => {
    const given = worker({ job: () => job });
    expect(await given.run(given.readJob, { projectId: 'p', jobId: 'j', runId: 'run' }).result).toMatchObject(read);
  });

  test('reads nothing for the grant of another run, which may have sent', async () => {
    const { run, readJob, calls } = worker({});
    expect(await run(readJob, { projectId: 'p', jobId: 'j', runId: 'earlier' }).result).toEqual({ kind: 'foreign' });
    expect(calls).toEqual([]);
  });
});

describe('sendMessage', () => {
  const grant = { runId: 'run', sendNumber: 3, grantedAtMs: START_MS, leaseMs: config.leaseMs };
  const request: SendRequest = { projectId: 'p', jobId: 'j', prompt: 'go on', whenActive: 'wait', grant };
  const send = (world: World = {}, more: Partial<SendRequest> = {}, info?: Partial<Info>) => {
    const given = worker(world);
    return { ...given, ...given.run(given.sendMessage, { ...request, ...more }, info) };
  };

  test('posts once, and returns its grant, the job before and after, and the outcome', async () => {
    const { result, calls } = send({}, { jobBefore: rest });
    const expected = { grant: 'run/3', outcome: 'sent', statusCode: 200, jobBefore: rest, job: working };
    expect([await result, calls]).toEqual([expected, ['post']]);
    const isPrivate = send({ linksArePrivate: true }, { jobBefore: rest });
    expect(await isPrivate.result).toEqual({ ...expected, linksArePrivate: true });
    const sent: SendMessageOutcome = { outcome: 'limited', statusCode: 429, message: 'why', retryAfterMs: 1 };
    expect(await send({ sent }, { jobBefore: rest }).result).toEqual({ ...sent, grant: 'run/3', jobBefore: rest });
  });

  test('without a baseline, reads the job and keeps it in a heartbeat before the post', async () => {
    const { result, calls, beats } = send({ job: () => done });
    expect(await result).toMatchObject({ outcome: 'sent', jobBefore: done });
    expect(calls).toEqual(['get', 'beat', 'post']);
    expect(beats).toEqual([{ jobBefore: done }]);
  });

  test.each([
    [archived, {}],
    [working, {}],
    [notFound, {}],
    [failed('service', { retryAfterMs: 1 }), {}],
    [failed('limited', { retryAfterMs: 9_000 }), { refusal: 'limited', retryAfterMs: 9_000 }],
    [failed('credentials'), { refusal: 'credentials' }],
  ])('sends nothing if its read shows %o', async (job, refusal) => {
    const { result, calls } = send({ job: () => job });
    const outcome = { grant: 'run/3', outcome: 'notSent', message: expect.any(String) as string, ...refusal };
    expect(await result).toEqual(outcome);
    expect(calls).not.toContain('post');
  });

  test('sends to a job at work if whenActive is "send"', async () => {
    const { result } = send({ job: () => working }, { whenActive: 'send' });
    expect(await result).toMatchObject({ outcome: 'sent', jobBefore: working });
  });

  test.each<[string, string, Partial<Info>]>([
    ['another run than that of the grant', 'foreign', { workflowExecution: { workflowId, runId: 'other' } }],
    ['a second attempt', 'unknown', { attempt: 2 }],
    ['an activity that was reset', 'unknown', { currentAttemptScheduledTimestampMs: START_MS + 1 }],
  ])('sends nothing in %s', async (_, outcome, info) => {
    const { result, calls } = send({}, { jobBefore: rest }, info);
    expect(await result).toMatchObject({ grant: 'run/3', outcome });
    expect(calls).toEqual([]);
  });

  test.each([
    [29_999, 'sent'],
    [30_000, 'notSent'],
  ])('%i ms after the grant by the wall clock, the message is %s', async (lateMs, outcome) => {
    const { result } = send({}, { jobBefore: rest, grant: { ...grant, grantedAtMs: START_MS - lateMs } });
    expect(await result).toMatchObject({ outcome });
  });

  test.each([
    ['its stopwatch', { wallMs: () => START_MS, stopwatchMs: () => Date.now() }],
    ['its wall clock', { wallMs: () => Date.now(), stopwatchMs: () => 0 }],
  ])('sends nothing if the process stood still before the post, as %s shows', async (_, clocks) => {
    for (const [ms, outcome] of [[29_999, 'sent'] as const, [30_000, 'notSent'] as const]) {
      vi.setSystemTime(START_MS);
      const job = () => (vi.setSystemTime(START_MS + ms), rest);
      expect(await send({ clocks, job }).result).toMatchObject({ outcome });
    }
  });
});

const outcome = { kind: 'outcome', workflowId, sendNumber: 1, atMs: START_MS } as const;
test.each([
  ['reports the outcome of its own grant', { ...outcome, runId: 'run', outcome: 'notSent' } as const, 1],
  ['reports the outcome of another run’s send', { ...outcome, runId: 'earlier', outcome: 'sent' } as const, 1],
  ['reports its end', { kind: 'end', workflowId, runId: 'run' } as const, 1],
  ['does not free the grant of another run', { ...outcome, runId: 'earlier', outcome: 'notSent' } as const, 0],
])('reportToBudget %s', async (_, report, times) => {
  const { run, reportToBudget, budgets } = worker({});
  await run(reportToBudget, { projectId: 'p', report }).result;
  expect(budgets.report).toHaveBeenCalledTimes(times);
});

test('listRecentSends looks back further by a lease and a drain, because a send may outlive its follow-up', async () => {
  const { run, listRecentSends, budgets } = worker({});
  const query = { projectId: 'p', sinceMs: START_MS };
  const sends = await run(listRecentSends, query).result;
  expect(sends).toEqual({ sends: [], others: 7, leaseMs: config.leaseMs, drainMs: config.drainMs, runId: 'run' });
  const sinceMs = START_MS - config.leaseMs - config.drainMs;
  expect(budgets.listSends).toHaveBeenCalledWith({ ...query, sinceMs });
});

describe('watchJob', () => {
  const request: WatchRequest = {
    ...{ ...watchSettings, until: 'end', deadlineMs: START_MS + DAY, trouble: null, runId: 'run' },
    ...{ baseline: { job: rest, readByMs: START_MS }, arrivedByMs: START_MS },
  };
  const watch = (world: World, more: Partial<WatchRequest> = {}, info?: Partial<Info>) => {
    const given = worker(world);
    return { ...given, ...given.run(given.watchJob, { ...request, ...more }, info) };
  };
  /** Of a watch that reads next after `ms`. */
  const seenBefore = (ms: number): Observation => ({
    ...firstObservation(request, START_MS),
    ...{ intervalMs: MINUTE, polls: 40, nextPollAt: iso(START_MS + ms), observedActive: true },
  });
  const sleeping = { observation: seenBefore(5 * MINUTE) };

  test('reads at growing intervals up to the end of the turn', async () => {
    const { result, reads, beats } = watch({ job: () => (Date.now() < START_MS + 2 * MINUTE ? working : done) });
    await pass(3 * MINUTE);
    expect(await result).toMatchObject({ kind: 'ended', job: done, observation: { polls: 7, observedActive: true } });
    expect(reads()).toBe(7);
    // What the last read showed, and when the next one is.
    expect(beats.at(-1)).toMatchObject({ polls: 6, job: working, nextPollAt: '2026-01-05T12:02:40.858Z' });
  });

  test('takes a response for as old as its request, even if the process stood still in between', async () => {
    const job = () => {
      vi.setSystemTime(START_MS + HOUR);
      return rest;
    };
    const { result, reads } = watch({ job }, { ...request, arrivedByMs: START_MS });
    await pass(MINUTE);
    expect(reads()).toBeGreaterThan(1);
    await pass(HOUR);
    expect(await result).toMatchObject({ kind: 'ended' });
  });

  test.each([0, 30])('believes no end sooner if the previous attempt began %s s late', async (lateS) => {
    const broken = { ...rest, status: 'failed' };
    const baseline = { job: broken, readByMs: START_MS };
    const steady = { baseline, poll: { ...watchSettings.poll, maxIntervalMs: 5 * SECOND } };
    await pass(lateS * SECOND);
    const ending = new AbortController();
    const first = watch({ job: () => working, ending: ending.signal }, steady);
    await pass(15.1 * SECOND);
    const atWorkMs = Date.now();
    ending.abort();
    await pass(5 * SECOND);
    const info = { heartbeatDetails: first.beats.at(-1), attempt: 2, currentAttemptScheduledTimestampMs: Date.now() };
    // A replica that lags shows the turn before.
    const second = watch({ job: () => (Date.now() < atWorkMs + 9 * SECOND ? broken : working) }, steady, info);
    await pass(MINUTE);
    expect(second.reads()).toBeGreaterThan(5);
    second.cancel();
    await expect(second.result).rejects.toThrow(CancelledFailure);
  });

  test('sends a heartbeat at once with news, and otherwise once a minute, asleep or not', async () => {
    const { beats } = watch(
      { job: () => (Date.now() < START_MS + 121_500 ? working : failed()) },
      { observation: seenBefore(0), poll: { initialIntervalMs: SECOND, maxIntervalMs: SECOND, backoffCoefficient: 1 } },
    );
    const asleep = watch({}, sleeping);
    await pass(123 * SECOND);
    expect(beats.map((observation) => (observation as Observation).polls)).toEqual([41, 101, 161, 163]);
    await pass(3 * MINUTE - 4 * SECOND);
    expect(asleep.beats).toHaveLength(5);
  });

  test.each<[string, Partial<WatchRequest>, Partial<Info>]>([
    ['the heartbeat of the previous attempt', {}, { heartbeatDetails: sleeping.observation, attempt: 2 }],
    ['what an earlier watch has seen', sleeping, {}],
  ])('goes on from %s, at the time of its next poll', async (_, more, info) => {
    const { result, reads } = watch({ job: () => done }, more, info);
    await pass(5 * MINUTE - 1);
    expect(reads()).toBe(0);
    await pass(1);
    expect(await result).toMatchObject({ kind: 'ended', observation: { polls: 41, observedActive: true } });
  });

  test('ends its attempt for a long sleep if too many watches sleep, after a read that is due', async () => {
    const given = worker({ maxWatches: 1, job: () => working });
    const sleeper = given.run(given.watchJob, { ...request, ...sleeping });
    const later = { type: 'Later', category: ApplicationFailureCategory.BENIGN, nonRetryable: false };
    const long = given.run(given.watchJob, { ...request, ...sleeping });
    await expect(long.result).rejects.toThrow(failure({ ...later, nextRetryDelay: 5 * MINUTE }));
    expect(long.beats.at(-1)).toEqual(sleeping.observation);
    const due = given.run(given.watchJob, { ...request, observation: seenBefore(900) });
    await pass(900);
    await expect(due.result).rejects.toThrow(failure({ ...later, nextRetryDelay: MINUTE }));
    expect(due.beats.at(-1)).toMatchObject({ polls: 41, job: working });
    sleeper.cancel();
    await expect(sleeper.result).rejects.toThrow(CancelledFailure);
    const third = given.run(given.watchJob, { ...request, ...sleeping });
    await pass(5 * MINUTE);
    expect(third.beats.at(-1)).toMatchObject({ polls: 41 });
    third.cancel();
  });

  test('ends its attempt at once when the process is about to end', async () => {
    const ending = new AbortController();
    const { result, reads } = watch({ ending: ending.signal }, sleeping);
    await pass(MINUTE);
    ending.abort();
    await expect(result).rejects.toThrow(failure({ type: 'Later', nextRetryDelay: 4 * MINUTE }));
    const due = watch({ ending: ending.signal }, { observation: seenBefore(0) });
    await expect(due.result).rejects.toThrow(failure({ type: 'Later', nextRetryDelay: 1 }));
    expect([Date.now(), reads(), due.reads()]).toEqual([START_MS + MINUTE, 0, 0]);
  });

  test('ends at once when it is cancelled', async () => {
    const { result, cancel, reads } = watch({}, sleeping);
    await pass(SECOND);
    cancel();
    await expect(result).rejects.toThrow(CancelledFailure);
    expect([Date.now(), reads()]).toEqual([START_MS + SECOND, 0]);
  });

  test('ends as foreign in another run, and reads nothing', async () => {
    const { result, calls } = watch({}, { runId: 'earlier' });
    expect(await result).toMatchObject({ kind: 'foreign', observation: { polls: 0 } });
    expect(calls).toEqual([]);
  });

  test.each([
    [10 * MINUTE, 10 * MINUTE],
    [SECOND, 7.5 * SECOND],
    [3 * HOUR, HOUR],
  ])('a Retry-After of %i ms puts the next poll off for %i ms, up to the deadline', async (retryAfterMs, nextMs) => {
    const job = () => failed('limited', { retryAfterMs });
    const { beats } = watch({ job }, { deadlineMs: START_MS + 5 * SECOND + HOUR });
    await pass(5 * SECOND);
    expect(beats.at(-1)).toMatchObject({ nextPollAt: iso(START_MS + 5 * SECOND + nextMs) });
  });

  test('reads the job at its deadline, and ends', async () => {
    const more = { observation: seenBefore(0), deadlineMs: START_MS + 90 * SECOND };
    const { result, reads } = watch({ job: () => working }, more);
    await pass(90 * SECOND);
    expect(await result).toMatchObject({ kind: 'deadline' });
    expect(reads()).toBe(3);
  });

  test.each([DAY, -DAY])(
    'judges by the time of the server if the clock of the machine is wrong by %i ms',
    async (wrongMs) => {
      vi.setSystemTime(START_MS + wrongMs);
      const observation = { ...seenBefore(0), observedActive: false };
      // It ends when the settle time is over, with the third read.
      const { result, reads } = watch({}, { observation, deadlineMs: START_MS + HOUR, prLinkGraceMs: 0 });
      await pass(2 * MINUTE - 1);
      expect(reads()).toBe(2);
      await pass(1);
      expect(await result).toMatchObject({ kind: 'ended', observation: { polls: 43 } });
    },
  );

  test('counts the time of an attempt from when the server scheduled it', async () => {
    const { result } = watch({}, sleeping, { currentAttemptScheduledTimestampMs: START_MS + DAY });
    expect(await result).toMatchObject({ kind: 'ended', observation: { polls: 41 } });
  });
});
