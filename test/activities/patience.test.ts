import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Patience } from '../../src/activities/patience.js';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => void vi.useRealTimers());

const never = () => new Promise<string>(() => undefined);

function makePatience(probe: () => Promise<void> = async () => undefined) {
  const changes: (number | undefined)[] = [];
  return { patience: new Patience({ probe, onChange: (silentForMs) => changes.push(silentForMs) }), changes };
}

/** What each promise has resolved to, or `waits` if it is pending. */
async function standing(asks: readonly Promise<string>[]): Promise<string[]> {
  await vi.advanceTimersByTimeAsync(0);
  return Promise.all(asks.map((ask) => Promise.race([ask, Promise.resolve('waits')])));
}

test('all asks wait as long as the budget answers any of them', async () => {
  const { patience, changes } = makePatience();
  const asks = Array.from({ length: 50 }, () => patience.wait(never(), 60_000));
  for (let second = 0; second < 20; second++) {
    await vi.advanceTimersByTimeAsync(1_000);
    patience.answered();
  }
  expect(await standing(asks)).toEqual(asks.map(() => 'waits'));
  expect(changes).toEqual([]);
});

test('after two seconds without an answer all asks but twenty are let go, after six seconds the others too', async () => {
  const { patience, changes } = makePatience();
  const asks = Array.from({ length: 100 }, () => patience.wait(never(), 60_000));
  await vi.advanceTimersByTimeAsync(1_900);
  expect(await standing(asks)).toEqual(asks.map(() => 'waits'));
  await vi.advanceTimersByTimeAsync(200);
  expect((await standing(asks)).filter((end) => end === 'waits')).toHaveLength(20);
  expect(await patience.wait(never(), 60_000)).toBe('slow');
  await vi.advanceTimersByTimeAsync(4_000);
  expect((await standing(asks)).filter((end) => end === 'silent')).toHaveLength(20);
  expect(changes).toHaveLength(1);
  expect(patience.silentForMs).toBeGreaterThanOrEqual(6_000);
});

test('asks of a silent budget are answered at once, while one call at a time checks whether it is back', async () => {
  let probes = 0;
  let isBack = false;
  const { patience, changes } = makePatience(async () => {
    probes += 1;
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    if (!isBack) throw new Error('no answer');
  });
  patience.fallSilent();
  const first = patience.isBack();
  expect(await Promise.all([patience.isBack(), patience.isBack()])).toEqual([false, false]);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(await first).toBe(false);
  expect(probes).toBe(1);
  isBack = true;
  const later = patience.isBack();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(await later).toBe(true);
  expect(changes).toEqual([0, undefined]);
  expect(patience.isIdle).toBe(true);
});

test('an ask is let go at its own deadline, even while others are answered', async () => {
  const { patience } = makePatience();
  const ask = patience.wait(never(), 3_000);
  for (let second = 0; second < 3; second++) {
    await vi.advanceTimersByTimeAsync(1_000);
    patience.answered();
  }
  expect(await standing([ask])).toEqual(['slow']);
});

test('the error of an ask goes to its caller, and nobody is left waiting', async () => {
  const { patience } = makePatience();
  await expect(patience.wait(Promise.reject(new Error('refused')), 1_000)).rejects.toThrow('refused');
  expect(patience.isIdle).toBe(true);
});
