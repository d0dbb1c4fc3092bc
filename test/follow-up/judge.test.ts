import { describe, expect, it } from 'vitest';
import { iso } from '../../src/common/index.js';
import type { AgentJob } from '../../src/contract/index.js';
import {
  type Baseline,
  firstObservation,
  judge,
  type Read,
  type WatchEnd,
  type WatchRequest,
} from '../../src/follow-up/judge.js';
import { fingerprint } from '../../src/protocol/index.js';
import { DAY, HOUR } from '../support/times.js';
import { asRead, done, failed, notFound, rest, watchSettings, working } from './support.js';

// `rest` is completed with a first pull request, `done` with a second one.
const broken = { ...rest, status: 'failed' } satisfies AgentJob;
const archived = { ...rest, status: 'archived', archivedAt: '2026-01-05T12:00:00Z' } satisfies AgentJob;
const withThirdLink = { ...rest, prLink: 'https://git/3' } satisfies AgentJob;
const withoutLink = { status: 'completed', prLink: null } satisfies AgentJob;
const withoutStatus = {} satisfies AgentJob;
const queued = { status: 'queued' } satisfies AgentJob;

/** What the service shows at one time. */
interface Look {
  atMs: number;
  read: Read;
}

const at = (seconds: number, shown: AgentJob | Read): Look => ({ atMs: seconds * 1_000, read: asRead(shown) });

/** A baseline that was read at second 0. */
const before = (job: AgentJob, more: Partial<Baseline> = {}): Baseline => ({ job, readByMs: 0, ...more });

type Request = Pick<WatchRequest, 'until'> & Partial<WatchRequest>;

/** A message to a job at rest that arrived at second 0. */
function requestOf(request: Request): WatchRequest {
  const settings = { ...watchSettings, settleTimeMs: 120_000, prLinkGraceMs: 30_000 };
  const message = { baseline: before(rest), arrivedByMs: 0, runId: 'run' };
  return { ...settings, ...message, deadlineMs: DAY, trouble: null, ...request };
}

/** Judges the looks. No look before the last may end the watch. Returns how the last one ends it. */
function watch(request: Request, looks: Look[]): WatchEnd | 'goes on' {
  const fullRequest = requestOf(request);
  const observation = request.observation ?? firstObservation(fullRequest, 0);
  const ends = looks.map(({ atMs, read }) => judge(fullRequest, observation, read, atMs) ?? 'goes on');
  expect(ends.slice(0, -1)).toEqual(looks.slice(1).map(() => 'goes on'));
  return ends.at(-1)!;
}

describe('a watch until the job rests', () => {
  const until = 'rest';

  it('ends when the job is completed', () => {
    expect(watch({ until }, [at(0, working), at(5, done)])).toEqual({ kind: 'rest', job: done });
  });

  it('ends when the job is archived', () => {
    expect(watch({ until }, [at(0, archived)])).toEqual({ kind: 'rest', job: archived });
  });

  it('ends if the job has no status', () => {
    expect(watch({ until }, [at(0, withoutStatus)])).toEqual({ kind: 'rest', job: withoutStatus });
  });

  it('goes on while the status of the job is unknown', () => {
    expect(watch({ until }, [at(0, queued)])).toBe('goes on');
  });
});

describe('a watch for evidence of a delivery', () => {
  const until = 'evidence';

  it('takes a job at work as evidence', () => {
    const end = watch({ until }, [at(20, rest), at(30, working)]);
    expect(end).toEqual({ kind: 'evidence', job: working });
  });

  it('takes another pull request as evidence', () => {
    const end = watch({ until }, [at(20, rest), at(30, done)]);
    expect(end).toEqual({ kind: 'evidence', job: done });
  });

  it('takes another final status as evidence', () => {
    const end = watch({ until }, [at(20, rest), at(30, broken)]);
    expect(end).toEqual({ kind: 'evidence', job: broken });
  });

  it('takes nothing as evidence within ten seconds of the baseline: replicas lag', () => {
    expect(watch({ until }, [at(1, working), at(9.9, done)])).toBe('goes on');
  });

  it('takes no archived job as evidence, because anyone may archive it', () => {
    expect(watch({ until }, [at(30, archived)])).toBe('goes on');
  });

  it('takes no archived job as evidence even if it has another pull request', () => {
    expect(watch({ until }, [at(60, { ...done, status: 'archived' })])).toBe('goes on');
  });

  it('takes nothing as evidence if the job was at work before the message', () => {
    const end = watch({ until, baseline: before(working) }, [at(30, working), at(60, done)]);
    expect(end).toBe('goes on');
  });

  it('takes nothing as evidence if the job before the message is not known', () => {
    const end = watch({ until, baseline: before({}) }, [at(30, working), at(60, done)]);
    expect(end).toBe('goes on');
  });

  it('takes no end of the previous turn as evidence if the baseline is older', () => {
    const baseline = before(rest, { previousEnd: fingerprint(done) });
    expect(watch({ until, baseline }, [at(30, done)])).toBe('goes on');
  });

  it('takes an end as evidence that neither the baseline nor the last turn had', () => {
    const baseline = before(rest, { previousEnd: fingerprint(done) });
    const end = watch({ until, baseline }, [at(30, done), at(60, withThirdLink)]);
    expect(end).toEqual({ kind: 'evidence', job: withThirdLink });
  });

  it('takes no missing field as evidence', () => {
    const end = watch({ until }, [at(30, withoutStatus), at(40, { status: 'completed' })]);
    expect(end).toBe('goes on');
  });

  it('goes on while the job is not found', () => {
    const end = watch({ until }, [at(1, notFound), at(50, notFound), at(99, notFound)]);
    expect(end).toBe('goes on');
  });

  it('ends at its deadline', () => {
    const end = watch({ until, deadlineMs: 99_000 }, [at(98, rest), at(99, rest)]);
    expect(end).toEqual({ kind: 'deadline' });
  });
});

describe('a watch until the turn ends', () => {
  const until = 'end';

  it('does not believe a new end within ten seconds of the message', () => {
    expect(watch({ until }, [at(3, done), at(7, done), at(9.9, done)])).toBe('goes on');
  });

  it('believes a new end ten seconds after the message', () => {
    expect(watch({ until }, [at(3, done), at(10, done)])).toEqual({ kind: 'ended', job: done });
  });

  it('believes a new end after the settle time if that is shorter than ten seconds', () => {
    const end = watch({ until, settleTimeMs: 4_000 }, [at(3, done), at(4, done)]);
    expect(end).toEqual({ kind: 'ended', job: done });
  });

  it('believes a new end at once after work', () => {
    expect(watch({ until }, [at(11, working), at(12, done)])).toEqual({ kind: 'ended', job: done });
  });

  it('takes another time of archiving for a new end', () => {
    const archivedLater = { ...archived, archivedAt: '2026-01-05T13:00:00Z' };
    const end = watch({ until, baseline: before(archived) }, [at(20, archived), at(30, archivedLater)]);
    expect(end).toEqual({ kind: 'ended', job: archivedLater });
  });

  it('believes an unchanged end only after the settle time', () => {
    const end = watch({ until, baseline: before(broken) }, [at(30, broken), at(119, broken), at(120, broken)]);
    expect(end).toEqual({ kind: 'ended', job: broken });
  });

  it('counts the settle time from the arrival of the message', () => {
    const end = watch({ until, baseline: before(broken), arrivedByMs: 60_000 }, [at(179, broken), at(180, broken)]);
    expect(end).toEqual({ kind: 'ended', job: broken });
  });

  it('believes an end like that of the previous turn only after the settle time', () => {
    const baseline = before(rest, { previousEnd: fingerprint(broken) });
    const end = watch({ until, baseline }, [at(30, broken), at(120, broken)]);
    expect(end).toEqual({ kind: 'ended', job: broken });
  });

  it('does not believe an unchanged end sooner because its pull request is missing', () => {
    const end = watch({ until, baseline: before(broken) }, [at(30, { status: 'failed' }), at(120, broken)]);
    expect(end).toEqual({ kind: 'ended', job: broken });
  });

  it('believes an end at once if neither the baseline nor the previous turn had it', () => {
    const baseline = before(rest, { previousEnd: fingerprint(broken) });
    const end = watch({ until, baseline }, [at(30, broken), at(40, done)]);
    expect(end).toEqual({ kind: 'ended', job: done });
  });

  it('believes an unchanged end ten seconds after the job was last at work', () => {
    const end = watch({ until, baseline: before(broken) }, [at(10, working), at(12, broken), at(20, broken)]);
    expect(end).toEqual({ kind: 'ended', job: broken });
  });

  it('does not believe an unchanged end within ten seconds of work, because replicas lag', () => {
    const looks = [at(10, working), at(15, broken), at(16, working), at(25.9, broken)];
    expect(watch({ until, baseline: before(broken) }, looks)).toBe('goes on');
  });

  it('does not believe an unchanged end sooner for work within ten seconds of the send', () => {
    const end = watch({ until, baseline: before(broken) }, [at(9.9, working), at(119, broken), at(120, broken)]);
    expect(end).toEqual({ kind: 'ended', job: broken });
  });

  it('believes an unchanged end if the response to the message showed the job at work', () => {
    const observation = { ...firstObservation(requestOf({ until }), 0), observedActive: true };
    const end = watch({ until, baseline: before(broken), observation }, [at(12, broken)]);
    expect(end).toEqual({ kind: 'ended', job: broken });
  });

  it('does not believe an end within ten seconds of the latest arrival of the message', () => {
    const end = watch({ until, baseline: before(broken), arrivedByMs: 60_000 }, [at(10, working), at(69, broken)]);
    expect(end).toBe('goes on');
  });

  it('believes an end ten seconds after the settle time if the job was at work before', () => {
    const looks = [at(11, working), at(119, done), at(120, done), at(129.9, done), at(130, done)];
    const end = watch({ until, baseline: before(working) }, looks);
    expect(end).toEqual({ kind: 'ended', job: done });
  });

  it('takes an end for that of the turn before if the job works again within ten seconds', () => {
    const looks = [at(120, done), at(125, working), at(130, withThirdLink), at(140, withThirdLink)];
    const end = watch({ until, baseline: before(working) }, looks);
    expect(end).toEqual({ kind: 'ended', job: withThirdLink });
  });

  it('goes on while the job has no status', () => {
    expect(watch({ until }, [at(200, withoutStatus)])).toBe('goes on');
  });

  it('goes on while the status of the job is unknown', () => {
    expect(watch({ until }, [at(4_000, queued)])).toBe('goes on');
  });

  it('ends at its deadline', () => {
    const end = watch({ until, deadlineMs: 9_000 }, [at(8, working), at(9, working)]);
    expect(end).toEqual({ kind: 'deadline' });
  });

  it('ends with the end of the turn if that is seen at the deadline', () => {
    const end = watch({ until, deadlineMs: HOUR }, [at(3_600, done)]);
    expect(end).toEqual({ kind: 'ended', job: done });
  });
});

describe('a pull request that a completed job does not show', () => {
  const until = 'end';

  it('is part of the result if it appears within the grace', () => {
    const end = watch({ until }, [at(11, working), at(30, rest), at(40, done)]);
    expect(end).toEqual({ kind: 'ended', job: done });
  });

  it('is awaited for as long as the grace lasts', () => {
    const end = watch({ until }, [at(11, working), at(30, rest), at(59, rest), at(60, rest)]);
    expect(end).toEqual({ kind: 'ended', job: rest });
  });

  it('is awaited if the job had none before either', () => {
    const looks = [at(11, working), at(30, withoutLink), at(59, withoutLink)];
    expect(watch({ until, baseline: before(withoutLink) }, looks)).toBe('goes on');
  });

  it('is awaited if the job no longer shows the one before', () => {
    expect(watch({ until }, [at(30, withoutLink), at(59, withoutLink)])).toBe('goes on');
  });

  it('is awaited if the job shows the one of the previous turn late', () => {
    const baseline = before(withoutLink, { previousEnd: fingerprint(rest) });
    expect(watch({ until, baseline }, [at(11, working), at(30, rest)])).toBe('goes on');
  });

  it('is awaited if the one before the message is not known', () => {
    expect(watch({ until, baseline: before({}) }, [at(120, rest), at(149, rest)])).toBe('goes on');
  });

  it('is not awaited if the job failed', () => {
    const end = watch({ until }, [at(11, working), at(30, broken)]);
    expect(end).toEqual({ kind: 'ended', job: broken });
  });

  it('is not awaited if the job was archived', () => {
    const end = watch({ until }, [at(11, working), at(30, archived)]);
    expect(end).toEqual({ kind: 'ended', job: archived });
  });

  it('is awaited for the whole grace again after more work', () => {
    const looks = [at(11, working), at(30, rest), at(50, working), at(61, rest), at(90, rest), at(91, rest)];
    const end = watch({ until }, looks);
    expect(end).toEqual({ kind: 'ended', job: rest });
  });

  it('is not awaited beyond the deadline', () => {
    const end = watch({ until, deadlineMs: 40_000 }, [at(11, working), at(30, rest), at(40, rest)]);
    expect(end).toEqual({ kind: 'ended', job: rest });
  });
});

describe('a job that is not found', () => {
  const until = 'end';

  it('is not given up within 30 seconds', () => {
    const end = watch({ until }, [at(1, notFound), at(2, notFound), at(30.9, notFound)]);
    expect(end).toBe('goes on');
  });

  it('is not given up after two reads', () => {
    expect(watch({ until }, [at(1, notFound), at(60, notFound)])).toBe('goes on');
  });

  it('is given up after three reads in 30 seconds', () => {
    const end = watch({ until }, [at(1, notFound), at(2, notFound), at(31, notFound)]);
    expect(end).toEqual({ kind: 'notFound', message: 'no such job' });
  });

  it('is not given up if it is found once in that time', () => {
    const looks = [at(1, notFound), at(20, working), at(31, notFound), at(49, notFound)];
    expect(watch({ until }, looks)).toBe('goes on');
  });

  it('is not given up if a read in that time fails for another reason', () => {
    const looks = [at(1, notFound), at(20, failed('service')), at(31, notFound), at(49, notFound)];
    expect(watch({ until }, looks)).toBe('goes on');
  });
});

describe('trouble with the reads of a job', () => {
  const until = 'end';
  const [limited, unavailable] = [failed('limited'), failed('service')];

  it('begins after three failed reads in 30 seconds', () => {
    const end = watch({ until }, [at(1, limited), at(16, unavailable), at(31, unavailable)]);
    expect(end).toEqual({ kind: 'trouble', trouble: 'service' });
  });

  it('has the reason of the last failed read', () => {
    const end = watch({ until }, [at(1, limited), at(16, limited), at(31, unavailable)]);
    expect(end).toEqual({ kind: 'trouble', trouble: 'service' });
  });

  it('does not begin within 30 seconds', () => {
    const end = watch({ until }, [at(1, limited), at(16, unavailable), at(30, unavailable)]);
    expect(end).toBe('goes on');
  });

  it('does not begin after two failed reads', () => {
    expect(watch({ until }, [at(1, limited), at(60, unavailable)])).toBe('goes on');
  });

  it('is reported once, although its reason changes', () => {
    const looks = [at(60, unavailable), at(90, limited), at(120, unavailable)];
    expect(watch({ until, trouble: 'limited' }, looks)).toBe('goes on');
  });

  it('is not over when the job is not found', () => {
    expect(watch({ until, trouble: 'limited' }, [at(60, notFound)])).toBe('goes on');
  });

  it('is over when the job is read', () => {
    const end = watch({ until, trouble: 'limited' }, [at(60, working)]);
    expect(end).toEqual({ kind: 'trouble', trouble: null });
  });

  it('is not reported as over if it was not reported before', () => {
    const end = watch({ until, trouble: null }, [at(60, working), at(61, unavailable), at(62, working)]);
    expect(end).toBe('goes on');
  });

  it('is reported again only if it lasts twice as long as before', () => {
    const observation = firstObservation(requestOf({ until }), 0);
    watch({ until, observation }, [at(1, limited), at(16, limited), at(31, limited)]);
    watch({ until, observation, trouble: 'limited' }, [at(40, working)]);
    const looks = [at(50, limited), at(80, limited), at(109, limited), at(110, limited)];
    expect(watch({ until, observation }, looks)).toEqual({ kind: 'trouble', trouble: 'limited' });
  });

  it('does not hide the end of the turn', () => {
    const end = watch({ until, trouble: 'limited' }, [at(60, done)]);
    expect(end).toEqual({ kind: 'ended', job: done });
  });

  it('is shown in the observation until the job is read', () => {
    const observation = firstObservation(requestOf({ until }), 0);
    watch({ until, observation }, [at(1, limited), at(16, limited), at(31, unavailable)]);
    expect(observation.lastError).toBe('HTTP error: service');
    const end = watch({ until, observation, trouble: 'service' }, [at(60, working)]);
    expect(end).toEqual({ kind: 'trouble', trouble: null });
    expect(observation).not.toHaveProperty('lastError');
  });
});

describe('the first look', () => {
  const firstLookAt = (request: Request) => firstObservation(requestOf(request), HOUR).nextPollAt;

  it('comes after the first interval if the watch is for the end of a turn', () => {
    expect(firstLookAt({ until: 'end' })).toBe(iso(HOUR + 5_000));
  });

  it('does not come after the deadline', () => {
    expect(firstLookAt({ until: 'end', deadlineMs: HOUR + 1_000 })).toBe(iso(HOUR + 1_000));
  });

  it.each(['rest', 'evidence'] as const)('comes at once if the watch is for %s', (until) => {
    expect(firstLookAt({ until })).toBe(iso(HOUR));
  });
});

describe('a job with fields that this project does not know', () => {
  const known = { ...done, id: 'j', model: 'm', source: { repository: 'r', ref: 'main' } } satisfies AgentJob;
  const job: AgentJob = {
    ...known,
    source: { ...known.source, tree: 'x' },
    transcript: 'x'.repeat(50_000),
  };

  it.each(['rest', 'evidence', 'end'] as const)('is observed without them in a watch for the %s', (until) => {
    const observation = firstObservation(requestOf({ until }), 0);
    watch({ until, observation }, [at(20, job)]);
    expect(observation.job).toEqual(known);
  });

  it.each(['rest', 'evidence'] as const)('ends a watch for the %s without them', (until) => {
    expect(watch({ until }, [at(20, job)])).toEqual({ kind: until, job: known });
  });

  it('ends a watch for the end of the turn with all of them', () => {
    expect(watch({ until: 'end' }, [at(20, job)])).toEqual({ kind: 'ended', job });
  });
});
