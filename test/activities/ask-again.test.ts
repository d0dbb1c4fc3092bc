import { describe, expect, test } from 'vitest';
import { askAgainAfterMs, asksSilentBudgetAtMs } from '../../src/activities/ask-again.js';

test('an ask whose answer was lost is repeated after a quarter of a second', () => {
  expect([0, 0.5, 1].map((random) => askAgainAfterMs(0, random))).toEqual([250, 250, 250]);
});

test('an ask that is turned away is repeated soon at first, later after up to 2 s, and never sooner than 250 ms', () => {
  expect([1, 2, 3, 4, 100].map((times) => askAgainAfterMs(times, 1))).toEqual([500, 1_000, 2_000, 2_000, 2_000]);
  expect([1, 2, 3, 4, 100].map((times) => askAgainAfterMs(times, 0))).toEqual([250, 250, 250, 250, 250]);
});

describe('a follow-up of a silent budget asks again', () => {
  const minutes = (count: number) => count * 60_000;
  const waitMs = (silentForMs: number, lastInMs = 0) =>
    asksSilentBudgetAtMs(minutes(100), { silentForMs, lastAtMs: minutes(100) + lastInMs, random: 0.5 }) - minutes(100);

  test('after as long as the silence has lasted, from 5 s to 5 min', () => {
    expect([0, 20_000, minutes(2), minutes(20)].map((ms) => waitMs(ms, -minutes(1)))).toEqual([
      5_000,
      20_000,
      minutes(2),
      minutes(5),
    ]);
  });

  test('45 seconds after the one before it where many wait, and at least once an hour', () => {
    expect([minutes(6), minutes(30), minutes(90)].map((ms) => waitMs(minutes(20), ms))).toEqual([
      minutes(6.75),
      minutes(30.75),
      minutes(60),
    ]);
  });

  test('45 seconds apart whatever the random numbers: 75 follow-ups that wait for an hour ask at most 90 times', () => {
    let random = 0;
    let lastAtMs = 0;
    const dueMs = Array.from({ length: 75 }, () => 0);
    let asks = 0;
    for (let atMs = minutes(10); atMs < minutes(70); atMs += 1_000) {
      for (const [index, due] of dueMs.entries()) {
        if (due > atMs) continue;
        random = (random + 0.618) % 1;
        lastAtMs = asksSilentBudgetAtMs(atMs, { silentForMs: atMs, lastAtMs, random });
        dueMs[index] = lastAtMs;
        asks += 1;
      }
    }
    // All ask at the beginning, and then one every 45 seconds.
    expect(asks - dueMs.length).toBeGreaterThan(65);
    expect(asks - dueMs.length).toBeLessThanOrEqual(90);
  });
});
