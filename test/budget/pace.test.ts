import { describe, expect, test } from 'vitest';
import { Budget, carryState, restoreState } from '../../src/budget/index.js';
import { describeBudget } from '../../src/budget/details.js';
import { SHORTEST_GAP_SHARE } from '../../src/budget/limits.js';
import { acquire, MARGIN_MS, newBudget, settle, T0, WINDOW_MS } from './support.js';

/** Lets the service refuse a send at `nowMs` and accept a probe at the end of the pause. Returns the probe's time. */
function refuseAndProbe(budget: Budget, nowMs: number, name: string): number {
  acquire(budget, nowMs, name);
  settle(budget, nowMs, name, { outcome: 'limited' });
  const untilMs = Date.parse(budget.status(nowMs).paused!.until!);
  acquire(budget, untilMs, `probe-${name}`);
  settle(budget, untilMs, `probe-${name}`);
  return untilMs;
}

const granted = (budget: Budget, nowMs: number, names: string[]) =>
  names.filter((name) => acquire(budget, nowMs, name).kind === 'granted');
const names = (from: number, count: number) => Array.from({ length: count }, (_, index) => `w${from + index}`);

describe('after the service has refused a message', () => {
  test('sends start slowly, and each accepted message lets one more go at once', () => {
    const budget = newBudget({ limit: 100 });
    const nowMs = refuseAndProbe(budget, T0, 'x');
    expect(granted(budget, nowMs, names(0, 20))).toEqual(['w0', 'w1']);
    for (const name of ['w0', 'w1']) settle(budget, nowMs + 10, name);
    expect(granted(budget, nowMs + 20, names(2, 20))).toHaveLength(4);
  });

  test('a send that was granted ahead at a distance keeps its slot, even if that pace ends before it starts', () => {
    const budget = newBudget({ limit: 2 });
    acquire(budget, T0, 'x');
    settle(budget, T0, 'x');
    acquire(budget, T0 + 60_000, 'y');
    settle(budget, T0 + 60_000, 'y');
    const endMs = T0 + WINDOW_MS + MARGIN_MS;
    const nowMs = endMs - 500;
    budget.state.pace = { refusedAtMs: T0, atOnce: 10, gapMs: 36_000, nextAtMs: nowMs + 1_500 };
    expect(acquire(budget, nowMs, 'a')).toMatchObject({ kind: 'granted', grantedAtMs: nowMs + 1_500 });
    budget.resume(nowMs);
    expect(acquire(budget, nowMs, 'b')).toMatchObject({ kind: 'wait', reason: 'slot' });
  });

  test('for the second time within a window, sends keep a distance, which shrinks while the service accepts them', () => {
    const budget = newBudget({ limit: 100 });
    const nowMs = refuseAndProbe(budget, refuseAndProbe(budget, T0, 'x') + 1_000, 'y');
    const sentMs = [nowMs];
    for (let ms = nowMs + 100; budget.state.pace?.gapMs !== undefined; ms += 100) {
      for (const name of granted(budget, ms, [`at-${sentMs.length}`])) {
        sentMs.push(ms);
        settle(budget, ms, name);
      }
    }
    const gaps = sentMs.slice(1).map((ms, index) => ms - sentMs[index]!);
    expect(Math.max(...gaps)).toBeLessThanOrEqual(WINDOW_MS / 100);
    expect(Math.min(...gaps)).toBeGreaterThan(SHORTEST_GAP_SHARE * (WINDOW_MS / 100));
    expect(gaps.at(-1)).toBeLessThan(0.8 * gaps[0]!);
    expect(gaps.length).toBeGreaterThan(5);
  });

  test('for the second time a window later, nothing is paced', () => {
    const budget = newBudget({ limit: 100 });
    const nowMs = refuseAndProbe(budget, refuseAndProbe(budget, T0, 'x') + WINDOW_MS, 'y');
    expect(budget.state.pace?.gapMs).toBeUndefined();
    expect(granted(budget, nowMs, ['a'])).toEqual(['a']);
  });

  test('an invited waiter is granted a slot, and all waiters are told when to expect one', () => {
    const budget = newBudget({ limit: 100 });
    const nowMs = refuseAndProbe(budget, refuseAndProbe(budget, T0, 'x') + 1_000, 'y');
    const waits = names(0, 5).map((name) => acquire(budget, nowMs + 1, name));
    const etas = waits.map((answer) => (answer.kind === 'wait' ? answer.etaMs! : -1));
    for (const [index, etaMs] of etas.entries()) {
      expect(etaMs).toBeGreaterThan(index * 30_000);
      expect(etaMs).toBeLessThanOrEqual((index + 1) * 36_000);
    }
    const wakes: string[] = [];
    for (let ms = nowMs + 100; ms < nowMs + 200_000; ms += 100) {
      for (const name of budget.tick(ms).wake) {
        expect(acquire(budget, ms + 1, name)).toMatchObject({ kind: 'granted' });
        settle(budget, ms + 2_100, name);
        wakes.push(name);
      }
    }
    expect(wakes).toEqual(names(0, 5));
  });

  test('the pace is carried to the next run, shows in the details, and ends when an operator resumes', () => {
    const budget = newBudget({ limit: 100 });
    const nowMs = refuseAndProbe(budget, refuseAndProbe(budget, T0, 'x') + 1_000, 'y');
    const again = new Budget(restoreState(JSON.parse(JSON.stringify(carryState(budget.state)))));
    expect(again.state).toEqual(budget.state);
    expect(describeBudget(again.status(nowMs), nowMs)).toContain('one message every 34 s');
    again.resume(nowMs);
    expect(granted(again, nowMs, names(0, 20))).toHaveLength(10);
  });
});
