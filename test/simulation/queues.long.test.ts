import { describe, expect, test } from 'vitest';
import { INVITATION_GRACE_MS } from '../../src/budget/limits.js';
import type { Profile } from '../../simulation/profiles.js';
import { simulate } from './support.js';

/** Simulates some seeds of a profile, expects that no promise is broken, and returns the figures. */
function figures(profile: Profile, seeds: number) {
  const report = simulate(
    Array.from({ length: seeds }, (_, index) => index + 1),
    { profile },
  );
  expect(report.failures).toMatchObject({ overBudget: { examples: [] }, doubled: { examples: [] } });
  expect(report.failures).toMatchObject({ stuck: { examples: [] }, lying: { examples: [] } });
  return report.toJson(1);
}

test('20 interactive follow-ups that arrive while 1,400 of a batch wait are all granted within a window', () => {
  const crowd = figures('crowd', 2);
  expect(crowd.longestInteractiveMs).toBeLessThanOrEqual(3_600_000);
  expect(crowd.longestPassedOverMs).toBeLessThanOrEqual(INVITATION_GRACE_MS);
  expect(crowd.longestStandMs).toBeLessThanOrEqual(INVITATION_GRACE_MS);
  expect(crowd.perGrant.asks).toBeLessThan(9);
  expect(crowd.asksInAnyHour).toBeLessThan(7 * 1_420);
});

describe('after refusals', () => {
  test.each([
    { profile: 'burst1', seeds: 4, hourly: 45, mean: 68 },
    { profile: 'burst10', seeds: 4, hourly: 50, mean: 70 },
    { profile: 'burst100', seeds: 2, hourly: 99, mean: 99 },
    { profile: 'outsider', seeds: 6, hourly: 55, mean: 68 },
  ] as const)('a limit of 100 an hour is used well beside $profile', ({ profile, seeds, hourly, mean }) => {
    const { takenInLaterHours } = figures(profile, seeds);
    expect(takenInLaterHours?.least).toBeGreaterThanOrEqual(hourly);
    expect(takenInLaterHours?.mean).toBeGreaterThanOrEqual(mean);
  });
});

test('a budget that is silent for an hour gets fewer than 300 asks, and continues as soon as it answers', () => {
  const silent = figures('silent', 6);
  expect(silent.asksInAnyHour).toBeLessThan(300);
  expect(silent.longestStandMs).toBeLessThanOrEqual(3_600_000 + INVITATION_GRACE_MS);
});
