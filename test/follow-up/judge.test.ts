import { describe, expect, test } from 'vitest';
import { iso } from '../../src/common/index.js';
import type { AgentJob } from '../../src/contract/index.js';
import { type Baseline, firstObservation, judge, type Read, type WatchRequest } from '../../src/follow-up/judge.js';
import { fingerprint } from '../../src/protocol/index.js';
import { asRead, DAY, done, failed, HOUR, notFound, rest, watchSettings, working } from './support.js';

const broken = { ...rest, status: 'failed' };
const shown: Record<string, AgentJob | Read> = {
  ...{ rest, working, done, broken, notFound },
  archived: { ...rest, status: 'archived', archivedAt: '2026-01-05T12:00:00Z' },
  archivedWithLink: { ...done, status: 'archived' },
  third: { ...done, prLink: 'https://git/3' },
  noLink: { status: 'completed', prLink: null },
  noStatus: {},
  onlyStatus: { status: 'completed' },
  onlyFailed: { status: 'failed' },
  queued: { status: 'queued' },
  fails: failed(),
  limited: failed('limited'),
};

/** `looks`: seconds after the message arrived, and what the service shows then. The last one decides. */
type Case = [title: string, order: Partial<WatchRequest>, looks: string, end: string];

/** A baseline that was read when the message arrived. */
const before = (job: AgentJob, more: Partial<Baseline> = {}): Pick<WatchRequest, 'baseline'> => ({
  baseline: { job, readByMs: 0, ...more },
});

function requestOf(more: Partial<WatchRequest>): WatchRequest {
  const common = { ...watchSettings, until: 'end', deadlineMs: DAY, trouble: null } as const;
  return { ...common, ...before(rest), arrivedByMs: 0, runId: 'run', ...more };
}

/** Judges looks up to the first that ends the watch. */
function watch(more: Partial<WatchRequest>, looks: string) {
  const request = requestOf(more);
  const observation = structuredClone(request.observation ?? firstObservation(request, 0));
  const left = looks.split(', ').map((look) => look.split(' '));
  for (let look = left.shift(); look; look = left.shift()) {
    const [seconds, name] = look;
    const read = asRead(shown[name!]!);
    const end = judge(request, observation, read, Number(seconds) * 1_000);
    if (end) return { ...end, observation, read, left };
  }
  return { kind: 'goes on', observation, left };
}

function testCases(cases: Case[]): void {
  test.each(cases)('%s', (_, request, looks, kind) => {
    const end = watch(request, looks);
    expect(end).toMatchObject({ kind, left: [] });
    if ('job' in end) expect(end.read).toMatchObject({ job: end.job });
  });
}

describe('a watch until the job rests', () => {
  const until = { until: 'rest' } as const;
  testCases([
    ['ends when it is completed', until, '0 working, 5 done', 'rest'],
    ['ends when it is archived', until, '0 archived', 'rest'],
    ['ends without a status', until, '0 noStatus', 'rest'],
    ['goes on at a status that nobody knows', until, '0 queued', 'goes on'],
  ]);
});

describe('a watch for evidence', () => {
  const until = { until: 'evidence' } as const;
  const lastTurn = fingerprint(done);
  testCases([
    ['takes a job at work', until, '20 rest, 30 working', 'evidence'],
    ['takes another pull request', until, '20 rest, 30 done', 'evidence'],
    ['takes another end', until, '20 rest, 30 broken', 'evidence'],
    ['takes nothing for ten seconds after the job was read: replicas lag', until, '1 working, 9.9 done', 'goes on'],
    ['takes no archived job: anyone may archive it', until, '30 archived, 60 archivedWithLink', 'goes on'],
    ['takes nothing of a job at work before', { ...until, ...before(working) }, '30 working, 60 done', 'goes on'],
    ['takes nothing of an unknown job', { ...until, ...before({}) }, '30 working, 60 done', 'goes on'],
    [
      'takes no end of the turn before, which the baseline lags behind',
      { ...until, ...before(rest, { lastTurn }) },
      '30 done',
      'goes on',
    ],
    ['takes nothing from fields that are missing', until, '30 noStatus, 40 onlyStatus', 'goes on'],
    ['takes another end than that', { ...until, ...before(rest, { lastTurn }) }, '30 done, 60 third', 'evidence'],
    ['goes on without the job', until, '1 notFound, 50 notFound, 99 notFound', 'goes on'],
    ['ends at its deadline', { ...until, deadlineMs: 99_000 }, '98 rest, 99 rest', 'deadline'],
  ]);
});

describe('a watch until the turn ends', () => {
  const wasBroken = before(broken);
  const wasAtWork = { ...firstObservation(requestOf({}), 0), observedActive: true };
  const lastTurn = fingerprint(broken);
  testCases([
    ['believes no end in the first ten seconds', {}, '3 done, 7 done, 9.9 done', 'goes on'],
    ['believes it then', {}, '3 done, 10 done', 'ended'],
    ['or after a shorter settle time', { settleTimeMs: 4_000 }, '3 done, 4 done', 'ended'],
    ['believes an old end after the settle time', wasBroken, '30 broken, 119 broken, 120 broken', 'ended'],
    ['from when it arrived', { ...wasBroken, arrivedByMs: 60_000 }, '179 broken, 180 broken', 'ended'],
    ['believes the end of the turn before only then', before(rest, { lastTurn }), '30 broken, 120 broken', 'ended'],
    ['believes an old end without its link only then', wasBroken, '30 onlyFailed, 120 broken', 'ended'],
    ['believes at once what is neither', before(rest, { lastTurn }), '30 broken, 40 done', 'ended'],
    [
      'believes an old end ten seconds after the job was at work',
      wasBroken,
      '10 working, 12 broken, 20 broken',
      'ended',
    ],
    ['not sooner: a replica may lag', wasBroken, '10 working, 15 broken, 16 working, 25.9 broken', 'goes on'],
    ['not if a replica that lags showed it so', wasBroken, '9.9 working, 119 broken, 120 broken', 'ended'],
    ['or that the answer to the message showed so', { ...wasBroken, observation: wasAtWork }, '12 broken', 'ended'],
    ['not before it may have arrived', { ...wasBroken, arrivedByMs: 60_000 }, '10 working, 69 broken', 'goes on'],
    ['only time counts after a job at work', before(working), '11 working, 119 done, 120 done', 'goes on'],
    ['that is not between two turns', before(working), '120 done, 125 working, 130 third, 140 third', 'ended'],
    ['goes on without a status', {}, '200 noStatus, 4000 queued', 'goes on'],
    ['ends at its deadline', { deadlineMs: 9_000 }, '8 working, 9 working', 'deadline'],
    ['ends with the turn at its deadline', { deadlineMs: HOUR }, '3600 done', 'ended'],
  ]);
});

describe('a pull request that appears ten seconds after completed', () => {
  const withoutLink = { status: 'completed', prLink: null };
  const ofTurnBefore = before(withoutLink, { lastTurn: fingerprint(rest) });
  testCases([
    ['is taken', {}, '11 working, 30 rest, 40 done', 'ended'],
    ['is waited for as long as the grace lasts', {}, '11 working, 30 rest, 59 rest, 60 rest', 'ended'],
    ['is waited for if there is no link', before(withoutLink), '11 working, 30 noLink, 59 noLink', 'goes on'],
    ['is waited for if the link of the turn before comes late', ofTurnBefore, '11 working, 30 rest', 'goes on'],
    ['is waited for if nobody knows the link before', before({}), '120 rest, 149 rest', 'goes on'],
    ['is not waited for if the job failed', {}, '11 working, 30 broken', 'ended'],
    ['is not waited for if the job was archived', {}, '11 working, 30 archived', 'ended'],
    ['is waited for anew after more work', {}, '11 working, 30 rest, 50 working, 61 rest, 90 rest, 91 rest', 'ended'],
    ['is not waited for beyond the deadline', { deadlineMs: 40_000 }, '11 working, 30 rest, 40 rest', 'ended'],
  ]);
});

describe('a job that is not found', () => {
  testCases([
    ['is not given up after three 404 within seconds', {}, '1 notFound, 2 notFound, 30.9 notFound', 'goes on'],
    ['is not given up after two', {}, '1 notFound, 60 notFound', 'goes on'],
    ['is given up after three in 30 seconds', {}, '1 notFound, 2 notFound, 31 notFound', 'notFound'],
    ['is not given up if it is read between', {}, '1 notFound, 20 working, 31 notFound, 49 notFound', 'goes on'],
    ['is not given up if other reads fail between', {}, '1 notFound, 20 fails, 31 notFound, 49 notFound', 'goes on'],
  ]);
});

describe('trouble', () => {
  const trouble = 'limited';
  testCases([
    ['begins after three failed reads in 30 seconds', {}, '1 limited, 16 fails, 31 fails', 'trouble'],
    ['does not begin sooner', {}, '1 limited, 16 fails, 30 fails', 'goes on'],
    ['does not begin after two', {}, '1 limited, 60 fails', 'goes on'],
    ['begins once, although its reason changes', { trouble }, '60 fails, 90 limited, 120 fails', 'goes on'],
    ['is not over when the job is missing', { trouble }, '60 notFound', 'goes on'],
    ['is over when the job is read', { trouble }, '60 working', 'trouble'],
    ['is over once', {}, '60 working, 61 fails, 62 working', 'goes on'],
    ['does not hide the end of the turn', { trouble }, '60 done', 'ended'],
  ]);

  test('names the last reason, and that it is over', () => {
    const began = watch({}, '1 limited, 16 limited, 31 fails');
    expect(began).toMatchObject({ trouble: 'service', observation: { lastError: 'HTTP error: service' } });
    const over = watch({ trouble: 'service', observation: began.observation }, '60 working');
    expect(over).toMatchObject({ trouble: null });
    expect(over.observation).not.toHaveProperty('lastError');
  });
});

test('the first look is after the first interval if a turn must begin, and never after the deadline', () => {
  const firstAt = (more: Partial<WatchRequest>) => firstObservation(requestOf(more), HOUR).nextPollAt;
  expect(firstAt({})).toBe(iso(HOUR + 5_000));
  expect(firstAt({ deadlineMs: HOUR + 1_000 })).toBe(iso(HOUR + 1_000));
  expect([firstAt({ until: 'rest' }), firstAt({ until: 'evidence' })]).toEqual([iso(HOUR), iso(HOUR)]);
});

test.each(['end', 'rest', 'evidence'] as const)('a watch for the %s keeps only the fields that are known', (until) => {
  const source = { repository: 'r', ref: 'main' };
  const large = { ...done, id: 'j', model: 'm', source: { ...source, tree: 'x' }, transcript: 'x'.repeat(50_000) };
  const observation = firstObservation(requestOf({ until }), 0);
  const end = judge(requestOf({ until }), observation, asRead(large), 20_000);
  expect(observation.job).toEqual({ ...done, id: 'j', model: 'm', source });
  // The result of a follow-up has them all.
  expect(end).toMatchObject({ job: until === 'end' ? large : observation.job });
  expect('transcript' in (end as { job: object }).job).toBe(until === 'end');
});
