import { describe, expect, it } from 'vitest';
import { Budget, type ListedSend } from '../../src/budget/budget.js';
import { BudgetLoop, type BudgetPort, type RecentSends } from '../../src/budget/loop.js';
import { newState } from '../../src/budget/state.js';
import { askOf, Desk, HOUR, LEASE, listed, MARGIN, MINUTE, names, OVER, resetRun, SECOND, T0 } from './support.js';

describe('1 setLimit while counting', () => {
  for (const empty of [true, false])
    it(`window grows while the list is under way, first list empty: ${empty}`, async () => {
      let now = T0;
      const queries: number[] = [];
      const old: ListedSend[] = listed(names('old', 10));
      const oldAt = T0 - 2 * HOUR;
      let onList = () => undefined as void;
      let release: (() => void)[] = [];
      const port: BudgetPort = {
        originalRunId: 'first',
        nowMs: () => now,
        allAnswered: async () => undefined,
        show: () => undefined,
        isLong: () => false,
        wasResetSince: () => false,
        send: async () => true,
        condition: (isOver, ms) =>
          new Promise((r) => {
            if (isOver()) return r(true);
            if (ms === LEASE) {
              now += ms;
              onList();
              return r(false);
            }
            release.push(() => r(true));
          }),
        listRecentSends: async ({ sinceMs }): Promise<RecentSends> => {
          queries.push((T0 - sinceMs) / HOUR);
          const sends = oldAt >= sinceMs ? old : empty ? [] : listed(['recent']);
          if (empty) onList();
          return { sends, others: 0, leaseMs: LEASE, drainMs: 0, runId: 'first' };
        },
      };
      const budget = new Budget(newState({ limit: 10, windowMs: HOUR, reserve: 0, marginMs: MARGIN }, T0));
      const loop = new BudgetLoop(budget, port);
      onList = () => {
        onList = () => undefined;
        loop.change((n) => budget.setLimit(n, { windowMs: 24 * HOUR }));
      };
      void loop.run(false);
      for (let i = 0; i < 200; i++) {
        await Promise.resolve();
        for (const r of release.splice(0)) r();
      }
      console.log(
        'queries back hours',
        queries,
        'counting',
        budget.state.isCounting,
        'used',
        budget.slotEnds().length,
        'grant',
        loop.ask(askOf('a')).kind,
      );
      expect(budget.slotEnds().length).toBeGreaterThanOrEqual(10);
    });
});

describe('2 a grant from before the point of a reset, whose settle is lost, at the count', () => {
  it('end frees it; a reset run is told it may send again', () => {
    const desk = new Desk({ limit: 1 });
    desk.ask('a', { drainMs: 120 * SECOND }); // granted; the sent is told, and undone by the reset of the budget
    desk.wait(5 * SECOND);
    desk.state.isCounting = true;
    desk.state.rememberedSinceMs = desk.nowMs; // #noteReset
    desk.wait(LEASE);
    desk.book(listed(['a'], true).map((x) => ({ ...x, isWaiting: false })));
    desk.end('a'); // its turn has ended
    const b = desk.ask('b');
    console.log('slots', desk.budget.slotEnds().length, 'b', b.kind);
    const again = desk.ask('a', { ...resetRun });
    console.log(JSON.stringify(again));
    expect(b.kind).toBe('waiting');
    expect(again).not.toMatchObject({ outcome: 'notSent' });
  });
  it('a run reset to the end of its refused send is granted the next one, which was sent', () => {
    const desk = new Desk({ limit: 5 });
    desk.ask('a', { drainMs: 120 * SECOND });
    desk.wait(5 * SECOND);
    desk.state.isCounting = true;
    desk.state.rememberedSinceMs = desk.nowMs;
    desk.wait(LEASE);
    desk.book(listed(['a'], true).map((x) => ({ ...x, isWaiting: false })));
    desk.settle('a', 'limited'); // told again by the reset run
    desk.wait(MINUTE);
    const again = desk.ask('a', { ...resetRun, sendNumber: 2 });
    console.log(JSON.stringify(again));
    expect(again.kind).toBe('known');
  });
});

describe('3 a late end of the run before', () => {
  it('keeps the place of the run that replaced it', () => {
    const desk = new Desk({ limit: 1 });
    desk.send('x');
    desk.ask('a');
    const { runId } = askOf('a');
    desk.ask('a', { ...resetRun, startedAtMs: T0 + 1 });
    desk.told();
    desk.end('a', { runId });
    expect(desk.nextGrants()[1]).toEqual(['a']);
  });
});

describe('4 a wake that did not find the run before', () => {
  it.fails('keeps the place and the turn of the run that replaced it', () => {
    const desk = new Desk();
    desk.send('a', { job: 'x' });
    desk.told();
    desk.ask('b', { job: 'x' });
    const wake = desk.told().filter(({ answer }) => !answer);
    desk.ask('a', { runId: 'restarted' }); // started again by hand while the failure of the signal is under way
    desk.miss(wake);
    const [ms, who] = desk.nextGrants();
    console.log('4', wake.length, 'the turn of the running a goes after', ms / MINUTE, 'min to', who);
    expect(who).toEqual([]);
  });
});

describe('7 Retry-After: 1 that goes on', () => {
  it.fails('does not spend the budget on probes', () => {
    const desk = new Desk({ limit: 100 });
    for (let n = 1; n <= 120; n++) {
      let isGranted = desk.ask('a', { sendNumber: n }).kind === 'granted';
      if (!isGranted) desk.wait(SECOND);
      isGranted ||= desk.granted().length > 0;
      if (!isGranted) break;
      desk.settle('a', 'limited', { sendNumber: n, retryAfterMs: SECOND });
    }
    const used = desk.budget.slotEnds().length;
    console.log('7 slots used by refused probes after s', (desk.nowMs - T0) / SECOND, used);
    expect(used).toBeLessThan(20);
  });
});

describe('5 reserve', () => {
  it('leaves the batch lane something of a learned limit', () => {
    const desk = new Desk({ limit: 100, reserve: 50 });
    for (const n of names('s', 40)) {
      desk.send(n);
      desk.wait(SECOND);
    }
    desk.ask('r');
    desk.settle('r', 'limited');
    console.log('learned', desk.budget.limit);
    desk.wait(HOUR - 30 * SECOND);
    desk.ask('p');
    desk.settle('p');
    console.log('5a', desk.ask('b', { lane: 'batch' }).kind);
    desk.told();
    const [ms, who] = desk.nextGrants();
    console.log('5 batch alone granted after h', ms / HOUR, who);
    expect(ms).toBeLessThan(1.2 * HOUR);
  });
  it('of a maxLimit', () => {
    const desk = new Desk({ limit: 100, reserve: 50 });
    const a = desk.ask('b', { lane: 'batch', maxLimit: 40 });
    const [ms, who] = desk.nextGrants();
    console.log('5b', a.kind, ms / HOUR, who);
    expect(a.kind).toBe('granted');
  });
});

describe('6 recall', () => {
  it('holds a send that was heard late', () => {
    const desk = new Desk({ windowMs: MINUTE });
    desk.ask('a');
    desk.wait(OVER + 5 * MINUTE);
    desk.settle('a');
    console.log('6', desk.budget.slotEnds().length);
    desk.setLimit({ windowMs: HOUR });
    expect(desk.budget.slotEnds()).toHaveLength(1);
  });
  it.fails('holds each send of a follow-up', () => {
    const desk = new Desk();
    desk.ask('a');
    desk.settle('a', 'unknown');
    desk.wait(OVER);
    desk.ask('a', { sendNumber: 2 });
    desk.settle('a', 'sent', { sendNumber: 2 });
    desk.setLimit({ windowMs: MINUTE });
    desk.wait(3 * MINUTE);
    desk.setLimit({ windowMs: HOUR });
    console.log('6b', desk.budget.slotEnds().length);
    expect(desk.budget.slotEnds()).toHaveLength(2);
  });
});
