import { expect, test } from 'vitest';
import { ServerClock } from '../../src/temporal/server-clock.js';

test('a clock counts as wrong only by what is certain, and as right again once a later reading fits', () => {
  const clock = new ServerClock();
  const now = Date.parse('2026-11-29T12:00:00Z');
  clock.observe(now, now - 20_000, now + 60_000);
  expect(clock.offsetMs).toBe(20_000);
  expect(clock.problem()).toContain('is 20 s ahead of the Temporal server');
  clock.observe(now, now + 75_000, now + 60_000);
  expect(clock.problem()).toContain('is 15 s behind the Temporal server');
  clock.observe(now, now - 10_000, now + 60_000);
  expect([clock.offsetMs, clock.problem()]).toEqual([10_000, undefined]);
  clock.observe(now, now + 30_000, now + 60_000);
  expect(clock.offsetMs).toBe(0);
});
