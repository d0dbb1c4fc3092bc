import { describe, expect, test, vi } from 'vitest';
import { iso } from '../../src/common/index.js';
import type { FollowUpResult, FollowUpSettings as Settings } from '../../src/contract/index.js';
import { fingerprint } from '../../src/protocol/index.js';
import * as s from './support.js';
import {
  DAY,
  earlierSend,
  granted,
  HOUR,
  MINUTE,
  OVER_MS,
  rest,
  SECOND,
  START_MS,
  waiting,
  working,
} from './support.js';

s.useVirtualTime();

const start = (script: s.Script = {}, settings: Partial<Settings> = {}) => new s.Scene(settings, script);
const passedMs = () => Date.now() - START_MS;
const unknown = { outcome: 'unknown', message: 'connection reset' } as const;
const notSent = { outcome: 'notSent', message: 'too late' } as const;
const limited = { outcome: 'limited', message: 'too many', statusCode: 429 } as const;
const foreign = { outcome: 'foreign' } as const;
/** What the budget knows of a send that was never made. */
const neverBegan = { outcome: 'notSent', verdict: 'undelivered' } as const;
const archived = { kind: 'archived', job: { status: 'archived' } } as const;
/** The message moves no job. */
const lost = { sends: [unknown], job: () => rest };
const atWork = { asks: [s.atWork], job: () => working };
/** This run replaces another one. */
const port = { mayHaveSent: true };
/** Grants of the run before are replayed. */
const replayed = granted({ runId: 'earlier' });

/** `ends`: the result, or the failure's type and `delivered`. */
type Case = [title: string, script: s.Script, ends: string | Partial<FollowUpResult>, more?: More];
interface More {
  settings?: Partial<Settings>;
  state?: string;
  afterMs?: number;
  calls?: string;
  details?: object;
}

/** Runs each follow-up to its end. */
function testEnds(cases: Case[]): void {
  test.each(cases)('%s', async (_, script, ends, { settings, state, afterMs, calls, details } = {}) => {
    const scene = start(script, settings);
    const end = await scene.end();
    if (typeof ends === 'object') expect(end).toMatchObject(ends);
    else expect(s.endText(end)).toBe(ends);
    if (state !== undefined) expect(scene.shown.at(-1)).toBe(state);
    if (afterMs !== undefined) expect(passedMs()).toBe(afterMs);
    if (calls !== undefined) expect(scene.calls.join(', ')).toBe(calls);
    if (details) expect(end).toMatchObject({ details });
    // What it may have asked for is given back.
    expect(scene.reports.filter(({ kind }) => kind === 'end')).toHaveLength(1);
    expect(scene.calls.at(-1)).toBe('end');
  });
}

test('a follow-up asks, sends, reports the outcome, watches the turn and reports its end', async () => {
  const scene = start();
  expect(await scene.end()).toEqual({
    ...{ projectId: 'p', jobId: 'j', status: 'completed', prLink: 'https://git/2', prLinkChanged: true },
    ...{ delivery: 'sent', observedActive: true, sentAt: iso(START_MS), finishedAt: iso(Date.now()) },
    ...{ polls: 5, job: s.done },
  });
  expect(scene.calls).toEqual(['ask 1', 'send 1', 'report 1 sent', 'watch end', 'end']);
  expect(scene.shown).toEqual(['sending', 'polling', 'completed']);
  const job = { projectId: 'p', jobId: 'j', whenActive: 'wait' };
  const ask = { sendNumber: 1, lane: 'interactive', mayHaveSent: false, startedAtMs: START_MS };
  expect(scene.asked[0]?.order).toMatchObject({ ...job, isInDoubt: false, ask });
  const grant = { runId: 'run', sendNumber: 1, grantedAtMs: START_MS, leaseMs: s.LEASE_MS };
  expect(scene.sent[0]?.order).toEqual({ ...job, prompt: 'go on', jobBefore: rest, grant });
  expect(scene.reports).toEqual([
    { kind: 'outcome', runId: 'run', sendNumber: 1, outcome: 'sent', atMs: START_MS },
    { kind: 'end', lastTurn: fingerprint(s.done) },
  ]);
});

test('the job is read again if the follow-up waited for its grant', async () => {
  const scene = start({ asks: [waiting()] });
  await scene.pass(10 * MINUTE);
  scene.flow.receive(granted()());
  await scene.pass();
  expect(scene.sent[0]?.order).not.toHaveProperty('jobBefore');
  expect(scene.sent[0]).toMatchObject({ atMs: START_MS + 10 * MINUTE, order: { grant: { sendNumber: 1 } } });
});

test('time counts from the response, and the end of the turn before goes to the watch', async () => {
  const lastTurn = fingerprint(s.done);
  const scene = start({ asks: [granted({ lastTurn })], sends: [{ afterMs: 29 * SECOND }] });
  expect(await scene.end()).toMatchObject({ sentAt: iso(START_MS + 29 * SECOND) });
  expect(scene.watched[0]).toMatchObject({ baseline: { job: rest, lastTurn }, arrivedByMs: START_MS + 29 * SECOND });
  expect(scene.reports[0]).toMatchObject({ atMs: START_MS + 29 * SECOND });
});

s.testScenes([
  [
    'it waits for its job to rest, if that works on a message that the budget does not know',
    { asks: [s.atWork, granted()], job: (ms) => (ms < HOUR ? working : rest) },
    'pass 1h-1ms, calls -> ask 1; watch rest, pass 2m, calls 3 -> send 1; report 1 sent; watch end',
  ],
]);

const refused = { outcome: 'rejected', message: 'too long', statusCode: 413 } as const;
const hourly = { initialIntervalMs: HOUR, maxIntervalMs: HOUR, backoffCoefficient: 1 };

describe('a follow-up ends', () => {
  const details = { serviceMessage: 'too long', statusCode: 413 };
  const failedJob = { ...rest, status: 'failed' };
  const failed: Partial<FollowUpResult> = { status: 'failed', prLink: rest.prLink, prLinkChanged: false };
  const job = () => working;
  const still = () => rest;
  const asked = { calls: 'ask 1, next task, end' };
  const answered = [{ job: working }];
  const wasAtWork = { asks: [s.grantedAfter(working)], sends: answered, job: still };
  const missing = { ...refused, outcome: 'notFound', statusCode: 404 } as const;
  const notFound = () => s.notFound;
  const hidden = (ms: number) => (ms < 20 * SECOND ? s.notFound : ms < MINUTE ? rest : s.done);
  const apart = { delivery: 'sent' } as const;
  const later = { afterMs: 10 * MINUTE };
  const gone = { state: 'not-sent', afterMs: 30 * SECOND } as const;
  const full = { isHistoryFull: () => true };
  const [budgetWaitTimeoutMs, jobTimeoutMs] = [3 * HOUR, MINUTE];
  const inTime = { settings: { budgetWaitTimeoutMs }, afterMs: budgetWaitTimeoutMs };
  testEnds([
    ['with a failed job', { job: (ms) => (ms < MINUTE ? working : failedJob) }, failed, { state: 'job-failed' }],
    ['soon after an answer at work', { sends: answered, job: still }, { observedActive: true }],
    ['later, if it was so before', wasAtWork, { observedActive: false }, { afterMs: 220_858 }],
    ['as MessageRejected', { sends: [refused] }, 'MessageRejected no', { state: 'not-sent', details }],
    ['as JobNotFound after 30 s of 404 to its message', { sends: [missing, missing] }, 'JobNotFound no', gone],
    [
      'as JobNotFound after 30 s of 404 to its reads',
      { asks: [s.notFound], job: notFound },
      'JobNotFound no',
      { afterMs: 35_625 },
    ],
    ['sent, if its message is answered by 404 for less', { sends: [missing, {}] }, { delivery: 'sent' }],
    ['sent, if two 404s are hours apart', { sends: [missing, { ...limited, afterMs: HOUR }, missing, {}] }, apart],
    ['sent, if two 404s are ten minutes apart', { sends: [missing, { ...missing, ...later }, {}] }, apart],
    ['sent, if its reads are', { asks: [s.notFound, granted()], job: hidden }, { delivery: 'sent' }],
    ['as JobNotFound after the send', { job: () => s.notFound }, 'JobNotFound yes', { state: 'job-failed' }],
    ['as JobArchived', { asks: [archived] }, 'JobArchived no', { state: 'not-sent' }],
    ['as JobTimeout', { job }, 'JobTimeout yes', { state: 'timed-out', afterMs: DAY }],
    ['before its first poll', { job }, 'JobTimeout yes', { settings: { jobTimeoutMs, poll: hourly }, afterMs: MINUTE }],
    ['as BudgetWaitTimeout before its history is full', { asks: [waiting()], port: full }, 'BudgetWaitTimeout no'],
    ['as BudgetWaitTimeout in line', { asks: () => waiting() }, 'BudgetWaitTimeout no', inTime],
    ['while its job is at work', { asks: () => s.atWork, job }, 'BudgetWaitTimeout no', inTime],
    ['as Closed after another message', { asks: [{ kind: 'otherMessage' }] }, 'Closed no', asked],
    ['as Closed after its end', { asks: [{ kind: 'ended' }] }, 'Closed unknown', asked],
  ]);

  test.each([
    [{ ...rest, prLink: null }, undefined, true],
    [rest, undefined, true],
    [s.done, undefined, false],
    // The baseline lags behind the turn before.
    [{ ...rest, prLink: null }, fingerprint(s.done), false],
  ])(
    'with prLinkChanged as compared with the link before the send: %j, %j, %s',
    async (jobBefore, lastTurn, changed) => {
      const asks = [s.grantedAfter(jobBefore, lastTurn && { lastTurn })];
      expect(await start({ asks }).end()).toMatchObject({ prLinkChanged: changed });
    },
  );
});

describe('a delivery that is unknown', () => {
  const afterMs = OVER_MS + 120_000;
  const assumed: Partial<FollowUpResult> = { delivery: 'assumed', prLinkChanged: false, sentAt: iso(START_MS) };
  const inferred = { delivery: 'inferred', observedActive: true, polls: 8 } as const;
  const settings = { onUnknownDelivery: 'resend' } as const;
  const calls =
    'ask 1, send 1, report 1 unknown, watch evidence, next task, ask 2, send 2, report 2 sent, watch end, end';
  const resend = { settings, calls };
  const lagging = (ms: number) => (ms < 8 * SECOND ? working : rest);
  const late: s.Script = { asks: [s.grantedAfter({})], sends: [unknown] };
  const moved: s.Script = { asks: [s.grantedAfter(s.done)], sends: [unknown], job: () => s.done };
  testEnds([
    ['is inferred from a job at work', { sends: [unknown] }, inferred, { afterMs: 84_687 }],
    ['is not inferred from a replica that lags', { ...lost, job: lagging }, 'DeliveryUnknown unknown'],
    ['fails when no byte can arrive', lost, 'DeliveryUnknown unknown', { state: 'delivery-unknown', afterMs }],
    ['is assumed by request', lost, assumed, { settings: { onUnknownDelivery: 'assumeSent' } }],
    ['is repeated by request', { ...lost, sends: [unknown, {}] }, { delivery: 'sent' }, resend],
    ['is repeated once', { ...lost, sends: [unknown, unknown] }, 'DeliveryUnknown unknown', { settings }],
    ['has no evidence without a job right before it', late, 'DeliveryUnknown unknown'],
    ['is judged by the job right before it', moved, 'DeliveryUnknown unknown'],
  ]);

  test('stays unknown if the repeated send is refused, and keeps the turn for the first one', async () => {
    const scene = start({ ...lost, sends: [unknown, refused] }, { onUnknownDelivery: 'resend' });
    expect(await scene.end()).toMatchObject({ type: 'MessageRejected', delivered: 'unknown' });
    expect(scene.reports.at(-1)).toEqual({ kind: 'end', turnUntilMs: START_MS + afterMs });
    expect(scene.flow.progress().earlierSendUnknown).toBe(true);
  });

  const twice = { ...lost, sends: [unknown, {}] };
  const polls = `${Array.from({ length: 8 }, () => 'pass 1s, poll').join(', ')}, pass 1s`;
  const thenPolls = 'pass, state -> polling, end';
  s.testScenes([
    ['is what an operator says: sent', twice, `${polls}, word sent, ${thenPolls} -> assumed completed, sent -> 1`],
    ['or notSent', twice, `${polls}, word notSent, ${thenPolls} -> sent completed, sent -> 2`],
    [
      'takes his decision once, and for one send',
      { ...lost, sends: [unknown, unknown] },
      'pass 1s, word notSent, refusal sent -> true, end -> DeliveryUnknown unknown, sent -> 2',
    ],
    [
      'is sent again also after the wait for the first slot',
      { sends: [unknown, {}], job: () => rest },
      'pass 2m, word notSent, end -> sent completed, sent -> 2',
      { budgetWaitTimeoutMs: MINUTE },
    ],
  ]);

  test('takes the decision of an operator only while it is due, and only a valid one', async () => {
    const { flow, pass } = start(lost);
    expect(flow.issueWithDecision('sent')).toContain('must be reconciling (it is waiting-for-budget)');
    await pass(SECOND);
    expect(flow.issueWithDecision('sent')).toBeUndefined();
    expect(flow.issueWithDecision({ word: 'sent' })).toContain('must be sent or notSent');
  });

  test.each([
    ['counts for that send', earlierSend({ outcome: 'unknown' }), ['ask 1', 'next task', 'ask 2']],
    ['says nothing of the next send', granted(), ['ask 1', 'send 1', 'report 1 unknown', 'watch evidence']],
  ])('takes a word that comes just before another run has the turn: it %s', async (_, answer, calls) => {
    const scene = start({ asks: [granted(), answer, s.silent()], sends: [unknown, unknown], job: () => rest });
    const watch = scene.watchJob.bind(scene);
    scene.watchJob = (request) => {
      if (scene.watched.length > 0) return watch(request);
      const { result } = watch({ ...request, runId: 'later' });
      return { result: scene.condition(() => false, SECOND).then(() => result), stop: () => undefined };
    };
    await scene.play('pass 500ms, word notSent, pass 1m');
    expect(scene.calls.slice(4)).toEqual(calls);
  });

  test('forgets a decision if the job shows evidence in the same task', async () => {
    // A reset run repeats its predecessor's watch, and asks who has the turn.
    const asks = [replayed, earlierSend({ outcome: 'unknown' })];
    const scene = start({ asks, sends: [unknown], job: () => rest, port });
    const watch = scene.watchJob.bind(scene);
    const observation = { polls: 1, nextPollAt: iso(START_MS), observedActive: true, intervalMs: 1 };
    scene.watchJob = (request) => {
      if (scene.watched.length > 0) return watch(request);
      void watch(request);
      const end = { kind: 'evidence', job: working, observation } as const;
      return { result: scene.condition(() => false, SECOND).then(() => end), stop: () => undefined };
    };
    await scene.play('pass 500ms, word notSent, pass 1m');
    expect(scene.calls.slice(-4)).toEqual(['watch evidence', 'watch end', 'ask 1', 'watch evidence']);
  });
});

describe('a cancel', () => {
  const sending = (result: object) => ({ sends: [{ ...result, afterMs: SECOND }] });
  test.each<[string, s.Script, string, number?]>([
    ['while the server repeats an ask', { asks: [s.silent()] }, 'no'],
    ['in line', { asks: [waiting()] }, 'no'],
    ['while its job works on another message', atWork, 'no'],
    ['between reads of a job that is not found', { asks: [s.notFound] }, 'no'],
    ['before another send', { sends: [notSent] }, 'no'],
    ['during a send that arrives', sending({}), 'yes', SECOND],
    ['during a send that does not start', sending(notSent), 'no', SECOND],
    ['during a send that is lost', sending(unknown), 'unknown', SECOND],
    ['while it looks for evidence', lost, 'unknown'],
    ['after the send', {}, 'yes'],
  ])('%s ends it at once', async (_, script, delivered, atMs = SECOND / 2) => {
    const scene = start(script);
    await scene.pass(SECOND / 2);
    scene.flow.cancel();
    expect(await scene.end()).toMatchObject({ type: 'Cancelled', delivered });
    expect(passedMs()).toBe(atMs);
    expect(scene.calls.at(-1)).toBe('end');
    expect(scene.shown.at(-1)).toBe(delivered === 'unknown' ? 'delivery-unknown' : 'cancelled');
  });

  test('sends nothing for a grant that comes with it: the end gives it back', async () => {
    const late = () => {
      scene.flow.cancel();
      return granted();
    };
    const scene: s.Scene = start({ asks: (_, count) => (count === 1 ? s.full() : late()) });
    expect(await scene.end()).toMatchObject({ type: 'Cancelled', delivered: 'no' });
    expect(scene.calls).toEqual(['ask 1', 'ask 1', 'next task', 'end']);
  });

  test.each<[string, s.Script, number]>([
    ['its bytes and the settle time are over', {}, 120_000],
    ['no byte can arrive any more and the settle time is over', lost, OVER_MS + 120_000],
  ])('keeps the turn of a send until %s', async (_, script, afterMs) => {
    const scene = start(script);
    await scene.play('pass 1s, cancel, end');
    expect(scene.reports.at(-1)).toEqual({ kind: 'end', turnUntilMs: START_MS + afterMs });
  });
});

describe('signals have no order', () => {
  s.testScenes([
    ['a late reason to wait replaces no grant', { asks: [waiting()] }, 'pass, grant, wait, pass, sent -> 1'],
    ['nor is it a place in line', { asks: [s.full(), granted()] }, 'pass 1s, wait, pass 1m, sent -> 1'],
    [
      'a late grant of an earlier send changes nothing',
      { asks: [granted(), waiting()], sends: [notSent, {}] },
      'pass 2s, grant, grant earlier, pass 1m, calls -> ask 1; send 1; report 1 notSent; ask 2, grant run 2, pass, sent -> 2',
    ],
    ['nor does one of a later send', { asks: [waiting(), waiting()] }, 'pass, grant run 2, pass 1m, sent -> 0'],
  ]);
});

describe('nothing is repeated for ever at the same pace', () => {
  s.testScenes([
    [
      'a full line is asked less and less often',
      { asks: () => s.full() },
      'pass 1h, asked -> 0m 1m 3m 7m 15m 30m 45m 60m',
    ],
    [
      'the times differ between follow-ups, and begin anew after a place in line',
      { asks: [s.full(), s.full(), waiting(), s.full(), waiting()], port: { random: () => 0.5 } },
      'pass 7h, asked -> 0m 90s 270s 21870s 366m',
    ],
    ...(
      [
        ['whose slot is overdue', { expectedAtMs: START_MS + 20 * MINUTE }, 23],
        ['that learns that the budget counts', { reason: 'counting' }, 3],
        ['whose slot is far', { expectedAtMs: START_MS + 7 * HOUR }, 360],
        ['that waits for its job', { reason: 'job-busy' }, 360],
      ] as const
    ).map(([what, more, minutes]): [string, s.Script, string] => [
      `one ${what} asks again: its grant may be lost`,
      { asks: [waiting(more), s.silent()] },
      `pass 7h, asked -> 0m ${minutes}m`,
    ]),
  ]);

  test('what a watch has seen goes to the next one, with the time of the next poll', async () => {
    const scene = start({ job: (ms) => (ms > 2 * MINUTE && ms < 8 * MINUTE ? s.failed('limited') : working) });
    await scene.pass(HOUR);
    const [, second, third, ...others] = scene.watched;
    expect(others).toEqual([]);
    expect(second).toMatchObject({ trouble: 'limited', observation: { observedActive: true } });
    expect(third).toMatchObject({ trouble: null });
    expect(third!.observation!.polls).toBeGreaterThan(second!.observation!.polls);
    const gaps = scene.polledAtMs.slice(1).map((atMs, index) => atMs - scene.polledAtMs[index]!);
    expect(gaps.slice(8).every((gap) => gap === MINUTE)).toBe(true);
  });

  test.each([
    ['most reads fail', [working, ...Array.from({ length: 4 }, () => s.failed())], 1_000],
    ['a job is missing from time to time', [s.notFound, ...Array.from({ length: 4 }, () => s.failed())], 2],
  ])('in a week in which %s there are few watches', async (_, reads, most) => {
    let count = 0;
    const scene = start({ job: () => reads[(count += 1) % reads.length]! }, { jobTimeoutMs: 8 * DAY });
    await scene.pass(7 * DAY);
    expect(count).toBeGreaterThan(10_000);
    expect(scene.watched.length).toBeLessThanOrEqual(most);
  });

  test('replicas of the service that disagree do not make it ask in a loop', async () => {
    const scene = start({ asks: (_, count) => (count < 2_000 ? s.atWork : granted()), job: () => rest });
    await scene.pass(HOUR);
    expect(scene.asked.length).toBeLessThan(20);
    await scene.play('poll, pass');
    expect(scene.asked.at(-1)?.atMs).toBe(Date.now());
  });

  test.each<[string, s.Script, number]>([
    ['whose slot is always near', { asks: () => waiting({ expectedAtMs: Date.now() }) }, 2_500],
    ['whose sends never start', { asks: () => granted(), sends: () => notSent }, 1_700],
  ])('one %s for a year stays far from the limit of a history', async (_, script, most) => {
    const scene = start(script, { budgetWaitTimeoutMs: 365 * DAY });
    await scene.end();
    expect(passedMs()).toBe(365 * DAY);
    expect(scene.asked.length).toBeLessThan(most);
  });

  test.each([
    ['sends that never start', { asks: () => granted(), sends: () => notSent }],
    ['watches that are ended by hand', { job: 'none' as const }],
    ['asks that are completed by hand', { asks: () => ({ kind: 'nothing' }) as const }],
  ])('%s are tried at intervals that grow to an hour', async (_, script) => {
    const scene = start(script, { jobTimeoutMs: 6 * DAY });
    await scene.pass(5 * DAY);
    const tries = Math.max(scene.sent.length, scene.watched.length, scene.asked.length);
    expect(tries).toBeGreaterThan(5 * 24);
    expect(tries).toBeLessThan(5 * 24 + 20);
    scene.flow.cancel();
    await scene.end();
    expect(passedMs()).toBe(5 * DAY);
  });

  test('what the service refuses to the whole project is the budget’s to wait for', async () => {
    const limited = { outcome: 'limited', retryAfterMs: 9_000, message: 'HTTP 429' } as const;
    const unread = { ...notSent, refusal: 'credentials', retryAfterMs: 5_000 } as const;
    const scene = start({ sends: [limited, unread] });
    await scene.pass();
    expect(scene.reports).toMatchObject([
      { kind: 'outcome', sendNumber: 1, outcome: 'limited', retryAfterMs: 9_000 },
      { kind: 'outcome', sendNumber: 2, outcome: 'notSent', refusal: 'credentials', retryAfterMs: 5_000 },
    ]);
  });

  test('a read that is refused before the ask is its last error, and the job is read again before the send', async () => {
    const scene = start({ asks: [(request) => ({ kind: 'asked', refusal: 'HTTP 401', reply: granted()(request) })] });
    await scene.pass();
    expect(scene.sent[0]?.order).not.toHaveProperty('jobBefore');
    expect(scene.flow.progress().lastError).toMatchObject({ message: 'HTTP 401' });
  });
});

describe('pollNow', () => {
  const job = () => working;
  const hourly = Array.from({ length: 20 }, (_, hour) => `pass 1h+7s, poll, pass, polled -> ${(hour + 1) * 3_607}s`);
  const often = Array.from({ length: 300 }, () => 'pass 10s, poll').join(', ');
  s.testScenes([
    ['reads at once, also the twentieth time in a day', { job }, hourly.join(', ')],
    ['keeps no follow-up beyond its deadline', { job }, `${often}, end, passed -> 60m`, { jobTimeoutMs: HOUR }],
    [
      'and a wake make a follow-up in line ask again at once, a wake only there',
      { ...atWork, asks: [s.silent(), waiting(), s.full(), s.atWork] },
      'pass 1s, poll, pass 1s, wake, pass 1s, poll, pass 1s, wake, pass 1d, asked -> 0m 1s 2s 3s',
    ],
    ['is all that stops a watch: no late grant does', {}, 'pass 20s, grant earlier, pass, watched -> 1'],
  ]);

  test('stops none while the task in which it ends can be undone', async () => {
    const scene = start();
    let goOn = (): void => undefined;
    scene.nextTask = () => new Promise((resolve) => (goOn = resolve));
    await scene.play('pass 20s, poll, pass, watched -> 1');
    goOn();
    await scene.play('pass, watched -> 2');
  });

  test.each([
    ['a turn', (ms: number) => (ms < MINUTE ? working : rest), 'completed'],
    ['a job that no longer exists', () => s.notFound, 'job-failed'],
  ])('again and again does not keep %s from its end', async (_what, job, state) => {
    for (const seconds of [5, 20, 31]) {
      const scene = start({ job });
      while (scene.shown.at(-1) !== state && passedMs() < HOUR) await scene.play(`pass ${seconds}s, poll, pass`);
      expect(scene.shown.at(-1)).toBe(state);
      vi.setSystemTime(START_MS);
    }
  });
});

describe('before it says that nothing was delivered, a follow-up without a reply to an ask', () => {
  test.each([
    ['yes', 'has delivered it', 'yes'],
    ['unknown', 'may have delivered it', 'unknown'],
    ['no', 'was archived before the message was sent', 'no'],
    ['silent', 'may have delivered it', 'unknown'],
  ] as const)('asks its budget what its key was used for: %s', async (wasDelivered, message, delivered) => {
    const scene = start({ asks: [archived], wasDelivered });
    const end = await scene.end();
    expect(end).toMatchObject({ type: 'JobArchived', delivered, message: expect.stringContaining(message) as string });
    expect(scene.calls).toEqual(['ask 1', 'was it delivered?', 'next task', 'end']);
  });

  test('does so also if it is cancelled while its job cannot be found', async () => {
    const scene = start({ asks: [s.notFound], job: () => s.notFound, wasDelivered: 'yes' });
    await scene.play('pass 10s, cancel, end -> Cancelled yes');
  });
});

test.each<[string, s.Script, number?]>([
  ['leaves no time of a send if it did not begin', { asks: [granted(), waiting()], sends: [notSent] }],
  [
    'leaves the time of the send before it, which may have arrived',
    { asks: [granted(), granted(), waiting()], sends: [{ ...limited, afterMs: SECOND }, notSent] },
    START_MS,
  ],
  ['of another run leaves none either', { asks: [earlierSend(neverBegan), waiting()], port }],
  [
    'of another run leaves one if there were others before it',
    { asks: [earlierSend({ ...neverBegan, sendNumber: 2 }), waiting()], port },
    START_MS - MINUTE,
  ],
])('a send %s', async (_, script, expected) => {
  const scene = start(script);
  await scene.pass(10 * SECOND);
  expect(scene.shown.at(-1)).toContain('waiting');
  expect(scene.shownSendAtMs).toBe(expected);
});

describe('a run that replaces another one', () => {
  const superseded = (outcome: 'sent' | null) => ({ asks: [earlierSend({ outcome, verdict: 'superseded' })], port });
  const undelivered = earlierSend({ ...neverBegan, sendNumber: 4 });
  const before = { sentAt: iso(START_MS - 50 * SECOND), prLink: s.done.prLink, prLinkChanged: false };
  const refusal = (more = {}) => earlierSend({ outcome: 'rejected', verdict: 'undelivered', ...more });
  const forgotten = (outcome: 'notSent' | 'rejected' | 'unknown') => ({
    asks: [earlierSend({ outcome, verdict: 'forgotten' })],
    port,
  });
  const otherRun: s.Script = { asks: [replayed, earlierSend({ verdict: 'superseded' })], port };
  const stillForeign: s.Script = { asks: [replayed, s.silent()], sends: [foreign] };
  const thenOwn: s.Script = { asks: [replayed, granted()], sends: [foreign, {}], port };
  const nobodyKnows: s.Script = { asks: [earlierSend({ outcome: null })], port };
  const ofAnother = waiting({ runId: 'earlier' });
  const doubtful = 'MessageRejected unknown';
  const impatient = { settings: { budgetWaitTimeoutMs: MINUTE } };
  const late: s.Script = { asks: [replayed, earlierSend()], sends: [{ afterMs: HOUR }], port };
  const lateUnknown: s.Script = {
    asks: [replayed, earlierSend({ outcome: null })],
    sends: [{ ...unknown, afterMs: DAY * 2 }],
    job: () => rest,
    port,
  };
  const asksAgain = { calls: 'ask 1, send 1, ask 1, next task, end' };
  const sendsOwn = { calls: 'ask 1, send 1, ask 1, send 1, report 1 sent, watch end, end' };
  const sendsNext = { calls: 'ask 1, ask 5, send 5, report 5 sent, watch end, end' };
  const afterWatch = { calls: 'ask 1, send 1, report 1 sent, watch end, ask 1, next task, end' };
  const afterEvidence = { calls: 'ask 1, send 1, report 1 unknown, watch evidence, ask 1, next task, end' };
  testEnds([
    ['is in doubt if the job is archived', { asks: [archived], port }, 'JobArchived unknown'],
    ['is in doubt if there is no job', { asks: [s.notFound], job: () => s.notFound, port }, 'JobNotFound unknown'],
    ['is in doubt without patience', { asks: [s.silent()], port }, 'BudgetWaitTimeout unknown'],
    ['was never granted if it gets a place', { asks: [waiting(), archived], port }, 'JobArchived no'],
    ['or if it gets none', { asks: [s.full(), archived], port }, 'JobArchived no'],
    ['stays so after another’s answer', { asks: [ofAnother, archived], port }, 'JobArchived unknown'],
    ['is so after another’s grant', stillForeign, 'BudgetWaitTimeout unknown', asksAgain],
    ['sends once its own ask is granted', thenOwn, { delivery: 'sent' }, sendsOwn],
    ['watches a send that is known', { asks: [earlierSend()], job: () => s.done, port }, before],
    ['looks for a send that nobody knows', nobodyKnows, 'DeliveryUnknown unknown', { afterMs: 4 * MINUTE }],
    ['sends anew what was not delivered', { asks: [undelivered, granted()], port }, { delivery: 'sent' }, sendsNext],
    ['says no after a refusal', { asks: [refusal()], port }, 'MessageRejected no'],
    ['says unknown if the budget may have forgotten another send', forgotten('rejected'), 'Closed unknown'],
    ['is closed if another has the turn', superseded('sent'), 'Closed yes', { calls: 'ask 1, next task, end' }],
    ['says unknown if nobody knows', superseded(null), 'Closed unknown'],
    ['sends nothing again if the budget forgot', forgotten('notSent'), 'Closed unknown'],
    ['or if it knows of no send', forgotten('unknown'), 'Closed unknown'],
    [
      'says unknown if a refusal is the reply to another run',
      { asks: [refusal({ runId: 'earlier' })], port },
      doubtful,
    ],
    ['says unknown if only the last of two sends was refused', { asks: [refusal({ sendNumber: 2 })] }, doubtful],
    ['asks for its predecessor’s send, however late', late, { delivery: 'sent' }, impatient],
    ['or for one that is unknown', lateUnknown, 'DeliveryUnknown unknown', impatient],
    ['asks before it watches another’s turn', otherRun, 'Closed yes', afterWatch],
    ['or its evidence', { ...otherRun, sends: [unknown] }, 'Closed yes', afterEvidence],
  ]);

  test('says unknown if it is cancelled before it sends again what may have arrived before', async () => {
    const scene = start({ asks: [earlierSend({ ...neverBegan, sendNumber: 2 }), waiting({ sendNumber: 3 })] });
    await scene.play('pass 5s, cancel');
    const message = expect.stringContaining('an earlier send of it may have been delivered') as string;
    expect(await scene.end()).toMatchObject({ type: 'Cancelled', delivered: 'unknown', message });
  });

  test('asks as one that may have sent, and reports the outcome for the run that had the grant', async () => {
    const scene = start({ asks: [replayed, earlierSend()], port });
    await scene.end();
    expect(scene.asked[0]?.order).toMatchObject({ isInDoubt: true, ask: { mayHaveSent: true } });
    expect(scene.reports[0]).toMatchObject({ kind: 'outcome', runId: 'earlier' });
  });

  s.testScenes([
    [
      'a grant that was typed by hand for no run of this follow-up makes it ask again',
      { asks: [waiting(), waiting()], sends: [foreign] },
      'pass, grant typed, pass, calls -> ask 1; send 1; ask 1',
    ],
  ]);
});

test.each([
  ['granted', granted(), 'no'],
  ['given a place', waiting(), 'no'],
  ['given a place as another run', waiting({ runId: 'earlier' }), 'unknown'],
] as const)('in doubt, a follow-up to an archived job that is %s ends', async (_, answer, delivered) => {
  const scene = start({ asks: [(request) => ({ ...archived, reply: answer(request) })], port });
  expect(await scene.end()).toMatchObject({ type: 'JobArchived', delivered });
  expect(scene.calls).toEqual(['ask 1', 'next task', 'end']);
  expect(scene.flow.progress().job).toEqual(archived.job);
});

describe('a grant that comes while the job works on another message', () => {
  const job = () => working;
  s.testScenes([
    [
      'ends the watch, and the send reads the job',
      { asks: [waiting(), s.atWork, granted()], job, sends: [notSent, {}] },
      'pass 6h+1s, grant, pass, calls -> ask 1; ask 1; watch rest; send 1; report 1 notSent, pass 5s, calls 4 -> ask 2; send 2; report 2 sent; watch end',
    ],
    [
      'is never used twice, also if it comes again',
      { asks: [waiting(), s.atWork, s.silent()], job, sends: [notSent] },
      'pass 6h+1s, grant, pass, grant, pass 1s, sent -> 1',
    ],
  ]);

  test('is taken while the ask is still under way, and the job is read again', async () => {
    const scene = start({ asks: [s.silent()] });
    await scene.play('grant, pass, calls -> ask 1; send 1; report 1 sent; watch end');
    expect(scene.sent[0]?.order.jobBefore).toBeUndefined();
  });

  const unread = { ...notSent, refusal: 'credentials' } as const;
  test.each<[string, NonNullable<s.Script['read']>]>([
    ['is archived', archived.job],
    ['works on another message', working],
    ['is not found', s.notFound],
    ['cannot be read', { kind: 'failed', message: 'HTTP 500' }],
    ['must not be read', { kind: 'failed', message: 'HTTP 401', refused: { refusal: 'credentials', statusCode: 401 } }],
  ])('after a refused read is given back without another send if the job %s', async (_, read) => {
    const scene = start({ asks: [waiting(), waiting(), s.silent()], sends: [unread], read });
    await scene.play(
      'pass 1m, grant, pass 10s, grant run 2, pass, calls 4 -> ask 2; read; next task; report 2 notSent',
    );
    const { refused } = read as { refused?: object };
    expect(scene.reports.at(-1)).toMatchObject({ kind: 'outcome', sendNumber: 2, outcome: 'notSent', ...refused });
    expect(scene.sent).toHaveLength(1);
  });

  test.each(['wait', 'send'] as const)('after a refused read is used if the job takes it (%s)', async (whenActive) => {
    const read = whenActive === 'wait' ? rest : working;
    const scene = start({ asks: [waiting(), waiting()], sends: [unread, {}], read }, { whenActive });
    await scene.play('pass 1m, grant, pass 10s, grant run 2, pass, calls 4 -> read; send 2; report 2 sent; watch end');
    expect(scene.sent[1]?.order).toMatchObject({ jobBefore: read });
  });
});

describe('progress', () => {
  test('shows a place in line, when the slot is expected, and how long the follow-up waits', async () => {
    const { flow, pass } = start({ asks: [waiting({ expectedAtMs: START_MS + HOUR })] });
    await pass();
    expect(flow.progress()).toEqual({
      ...{ projectId: 'p', jobId: 'j', state: 'waiting-for-budget', waitReason: 'slot', position: 3, polls: 0 },
      ...{ expectedSendAt: iso(START_MS + HOUR), learnedAt: iso(START_MS), waitsUntil: iso(START_MS + 7 * DAY) },
    });
  });

  test('shows the job that it waits for', async () => {
    const { flow, pass } = start({ asks: [s.atWork], job: 'none' });
    await pass();
    expect(flow.progress().job).toEqual(working);
  });

  test('follows the reason to wait, and shows nothing of the one before', async () => {
    const pause = { by: 'operator', until: iso(START_MS + DAY), note: 'tests' } as const;
    const first = waiting({ expectedAtMs: START_MS + HOUR, pause });
    const { flow, pass } = start({ asks: [first, s.silent('service')] });
    await pass();
    flow.receive(waiting({ reason: 'job-busy', position: 0 })());
    await pass();
    expect(flow.progress()).toMatchObject({ state: 'waiting-for-job', waitReason: 'job-busy' });
    for (const field of ['pause', 'position', 'expectedSendAt']) expect(flow.progress()).not.toHaveProperty(field);
    flow.receive(waiting({ reason: 'paused', pause })());
    await pass();
    expect(flow.progress()).toMatchObject({ state: 'blocked', waitReason: 'paused', pause, position: 3 });
    await pass(6 * HOUR);
    const lastError = { at: iso(START_MS + 6 * HOUR), message: 'nothing: service' };
    expect(flow.progress()).toMatchObject({ state: 'blocked', waitReason: 'service', lastError });
    for (const field of ['pause', 'position']) expect(flow.progress()).not.toHaveProperty(field);
  });

  test.each([
    ...(['paused', 'limited', 'credentials', 'queue-full', 'counting'] as const).map(
      (reason) => [reason, waiting({ reason })] as const,
    ),
    ['payment', s.silent('payment')] as const,
    ['service', s.silent('not-served')] as const,
  ])('shows blocked for the reason %s', async (waitReason, answer) => {
    const { flow, pass } = start({ asks: [answer] });
    await pass();
    expect(flow.progress()).toMatchObject({ state: 'blocked', waitReason });
  });

  test.each([
    [{ refusal: 'credentials' } as const, { state: 'blocked', waitReason: 'credentials' }, 10],
    [{}, { state: 'waiting-for-budget', lastError: { message: 'too late' } }, 60],
  ])('shows when a send that did not start (%j) is tried again, and why', async (refusal, shown, mostMinutes) => {
    const scene = start({ asks: () => granted(), sends: () => ({ ...notSent, ...refusal }) });
    await scene.pass(DAY);
    expect(scene.flow.progress()).toMatchObject(shown);
    const { nextTryAt = '' } = scene.flow.progress();
    expect(Date.parse(nextTryAt) - Date.now()).toBeGreaterThan(0);
    expect(Date.parse(nextTryAt) - Date.now()).toBeLessThanOrEqual(mostMinutes * MINUTE);
    await scene.play('poll, pass');
    expect(scene.sent.at(-1)?.atMs).toBe(Date.now());
  });

  const readableAfter = (minutes: number) => (ms: number) => (ms < minutes * MINUTE ? s.failed() : working);
  const doubtful = { sends: [unknown], job: readableAfter(4) };
  const waits = 'waiting-for-job (job-busy)';
  test.each<[string, s.Script, string]>([
    ['what it did before trouble', { ...atWork, job: readableAfter(5) }, `${waits}, blocked (service), ${waits}`],
    ['trouble after the send', { job: () => s.failed('limited') }, 'sending, polling, polling (limited)'],
    ['trouble in doubt', doubtful, 'sending, reconciling, reconciling (service), polling'],
    ['before the message leaves, that it sends', { sends: [{ afterMs: DAY }] }, 'sending'],
  ])('shows review %s', async (_, script, shown) => {
    const scene = start(script);
    await scene.pass(20 * MINUTE);
    expect(scene.shown.join(', ')).toBe(shown);
  });

  test('shows the job’s status and link as the message’s own only at the end, and then no more waiting', async () => {
    const job = (ms: number) => (scene.sent[0] && ms < MINUTE ? working : s.done);
    const scene = start({ asks: [s.atWork, granted()], job });
    await scene.pass(SECOND);
    const sent = { delivery: 'sent', sentAt: iso(START_MS), waitsUntil: iso(START_MS + DAY) };
    expect(scene.flow.progress()).toMatchObject({ state: 'polling', ...sent, job: s.done });
    for (const field of ['jobStatus', 'prLink']) expect(scene.flow.progress()).not.toHaveProperty(field);
    // The reads before the send are not counted.
    expect(await scene.end()).toMatchObject({ polls: 5 });
    const own = { jobStatus: 'completed', prLink: s.done.prLink };
    expect(scene.flow.progress()).toMatchObject({ state: 'completed', ...own });
    expect(scene.flow.progress()).not.toHaveProperty('waitsUntil');
  });

  test('shows a delivery in doubt, why, until when it is looked for, and how it failed', async () => {
    const scene = start(lost);
    await scene.pass(SECOND);
    const waitsUntil = iso(START_MS + OVER_MS + 120_000);
    const lastError = { message: unknown.message };
    expect(scene.flow.progress()).toMatchObject({ state: 'reconciling', waitsUntil, lastError });
    await scene.end();
    const failure = { type: 'DeliveryUnknown', delivered: 'unknown' };
    expect(scene.flow.progress()).toMatchObject({ state: 'delivery-unknown', failure });
    expect(scene.flow.progress()).not.toHaveProperty('waitsUntil');
  });
});
