import { describe, expect, it } from 'vitest';
import { createLimiter } from '../simulator/limiters.js';
import { HOUR, SECOND } from '../support/times.js';
import { T0 } from './support.js';
import { VirtualProject } from './virtual-project.js';

const HOURS = 6;

/** Accepts a message with 0, or refuses it with the milliseconds after which it would fit. */
type Limiter = (nowMs: number, turnEndsMs: readonly number[]) => number;

const window =
  (kind: 'sliding' | 'fixed' | 'weighted' | 'token-bucket') =>
  (limit: number): Limiter =>
    createLimiter({ kind, limit, windowMs: HOUR });

/** The generic cell rate algorithm: messages are evenly spaced, but `burst` may come together. */
const gcra =
  (burst: number) =>
  (limit: number): Limiter => {
    const cellMs = HOUR / limit;
    let theoreticalMs = 0;
    return (nowMs) => {
      const waitMs = theoreticalMs - (burst - 1) * cellMs - nowMs;
      if (waitMs <= 0) theoreticalMs = Math.max(nowMs, theoreticalMs) + cellMs;
      return Math.max(0, waitMs);
    };
  };

/** At most six jobs at work, and a sliding window. */
const sixJobs = (limit: number): Limiter => {
  const sliding = window('sliding')(limit);
  return (nowMs, turnEndsMs) => (turnEndsMs.length >= 6 ? Math.min(...turnEndsMs) - nowMs : sliding(nowMs, turnEndsMs));
};

/** Sends for six hours while a hundred messages always wait. */
function sendBacklog(limiter: Limiter, saysRetryAfter: boolean, seed: number) {
  let started = 0;
  const startNext = () => project.start(`job${started++}`);
  const project: VirtualProject = new VirtualProject({
    seed,
    onAccepted: startNext,
    respond(_, nowMs, turnEndsMs) {
      const waitMs = limiter(nowMs, turnEndsMs);
      if (waitMs === 0) return { outcome: 'sent' };
      const retryAfterMs = Math.ceil(waitMs / SECOND) * SECOND;
      return { outcome: 'limited', statusCode: 429, ...(saysRetryAfter && { retryAfterMs }) };
    },
  });
  while (started < 100) startNext();
  const { sends } = project.run(HOURS * HOUR);
  const isLate = ({ atMs }: { atMs: number }) => atMs > T0 + HOUR;
  return {
    accepted: project.accepted().length,
    acceptedLate: project.accepted().filter(isLate).length,
    refusedLate: sends.filter((send) => isLate(send) && send.outcome === 'limited').length,
    names: project.accepted().map(({ name }) => name),
  };
}

const limiters: [name: string, (limit: number) => Limiter, mostAnHour?: number][] = [
  ['a sliding window', window('sliding')],
  ['fixed windows', window('fixed')],
  ['a weighted window', window('weighted')],
  ['a token bucket', window('token-bucket')],
  ['GCRA one at a time', gcra(1)],
  ['GCRA with bursts of ten', gcra(10)],
  // A turn takes ten minutes on average.
  ['six jobs at work', sixJobs, 36],
];
const cases = limiters.flatMap(([name, create, mostAnHour = Infinity]) =>
  [100, 50].flatMap((limit) =>
    [true, false].map((saysRetryAfter): [title: string, () => Limiter, saysRetryAfter: boolean, allowed: number] => [
      `${name}, ${limit} an hour, ${saysRetryAfter ? 'with' : 'without'} Retry-After`,
      () => create(limit),
      saysRetryAfter,
      HOURS * Math.min(limit, mostAnHour),
    ]),
  ),
);

describe('a backlog', () => {
  it.each(cases)('is sent at the pace of a service that limits by %s', (_, createLimiter, saysRetryAfter, allowed) => {
    const results = [1, 2].map((seed) => sendBacklog(createLimiter(), saysRetryAfter, seed));
    const sum = (count: 'accepted' | 'acceptedLate' | 'refusedLate') =>
      results.reduce((total, result) => total + result[count], 0);
    expect(sum('accepted') / results.length / allowed).toBeGreaterThanOrEqual(0.8);
    expect(sum('refusedLate') / sum('acceptedLate')).toBeLessThanOrEqual(0.1);
    for (const { names } of results) {
      expect(new Set(names).size).toBe(names.length);
      // The oldest are not overtaken for ever.
      expect(names).toEqual(expect.arrayContaining(Array.from({ length: 100 }, (_, index) => `job${index}`)));
    }
  });
});
