import { describe, expect, it } from 'vitest';
import { Budget, type FollowUpSignal } from '../../src/budget/budget.js';
import type { ListedSend } from '../../src/budget/counting.js';
import { BudgetLoop, type BudgetPort, type RecentSends } from '../../src/budget/loop.js';
import { slotEnds } from '../../src/budget/slots.js';
import { newState } from '../../src/budget/state.js';
import { askOf, followUp, HELD, HOUR, LEASE, listed, MARGIN, names, OVER, SECOND, T0 } from './rules.js';

/** A workflow on Temporal, whose time passes by order. */
class FakePort implements BudgetPort {
  readonly originalRunId = 'first';
  isContinued = false;
  readonly runs = ['first'];
  time = T0;
  listed: ListedSend[] = [];
  readonly queries: { afterMs: number; sinceMs: number }[] = [];
  sent: FollowUpSignal[] = [];
  gone: string[] = [];
  isAnswering = false;
  isLongRun = false;
  isTooLongRun = false;
  /** Until when messages and lists are under way. */
  deliversAtMs = 0;
  #conditions: { isOver: () => boolean; untilMs: number; resolve: (isOver: boolean) => void }[] = [];

  nowMs = () => this.time;
  isLong = () => this.isLongRun;
  isTooLong = () => this.isTooLongRun;
  show = () => undefined;
  wasResetSince = (runId: string) => this.runs.at(-1) !== runId;

  async allAnswered(): Promise<void> {
    await this.condition(() => !this.isAnswering);
  }

  async condition(isOver: () => boolean, ms = Infinity): Promise<boolean> {
    if (isOver()) return true;
    return new Promise((resolve) => this.#conditions.push({ isOver, untilMs: this.time + ms, resolve }));
  }

  async signal(signal: FollowUpSignal): Promise<boolean> {
    this.sent.push(signal);
    await this.condition(() => this.time >= this.deliversAtMs);
    return !this.gone.includes(signal.workflowId);
  }

  async listRecentSends(query: { sinceMs: number }): Promise<RecentSends> {
    this.queries.push({ afterMs: this.time - T0, ...query });
    await this.condition(() => this.time >= this.deliversAtMs);
    return { sends: this.listed, others: 0, leaseMs: LEASE, drainMs: 0, runId: this.runs.at(-1)! };
  }

  /** Lets time pass, from one timer to the next. */
  async wait(ms = 0): Promise<void> {
    for (const endMs = this.time + ms; ;) {
      for (let turn = 0; turn < 50; turn++) {
        await Promise.resolve();
        const due = this.#conditions.filter(({ isOver, untilMs }) => untilMs <= this.time || isOver());
        this.#conditions = this.#conditions.filter((each) => !due.includes(each));
        for (const { isOver, resolve } of due) resolve(isOver());
      }
      if (this.time >= endMs) return;
      this.time = Math.min(endMs, ...this.#conditions.map(({ untilMs }) => untilMs));
    }
  }
}

/** Starts a budget with a list of sends. */
async function start(
  sends: readonly string[] = [],
  { limit = 3, assumeFull = false, listMs = 0, isContinued = false } = {},
) {
  const port = new FakePort();
  Object.assign(port, { isContinued, listed: listed(sends), deliversAtMs: T0 + listMs });
  const budget = new Budget(newState({ limit, windowMs: HOUR, reserve: 0, marginMs: MARGIN }, T0));
  const loop = new BudgetLoop(budget, port);
  let isOver = false;
  void loop.run(assumeFull).then(() => (isOver = true));
  await port.wait();
  const granted = () => {
    const sent = port.sent.splice(0).filter(({ reply }) => reply?.kind === 'granted');
    return sent.map(({ workflowId }) => workflowId.split('/').at(-1));
  };
  return {
    ...{ port, budget, granted, isOver: () => isOver, ask: (name: string) => loop.ask(askOf(name)) },
    report(kind: 'outcome' | 'end', name: string) {
      const { workflowId, runId } = askOf(name);
      const send = { sendNumber: 1, outcome: 'sent', atMs: port.time } as const;
      loop.receive(kind === 'end' ? { kind, workflowId, runId } : { kind, workflowId, runId, ...send });
    },
    /** Who is granted a send after this time. Nobody may be before. */
    async grantedAfter(ms: number) {
      await port.wait(ms - 1);
      expect(granted()).toEqual([]);
      await port.wait(1);
      return granted();
    },
    setWindow: (windowMs: number) => loop.change((nowMs) => budget.setLimit(nowMs, { windowMs })),
  };
}

describe('a fresh budget', () => {
  it('does not wait if its list is empty', async () => {
    const { port, ask } = await start();
    expect(ask('a')).toMatchObject({ kind: 'granted', grantedAtMs: T0 });
    expect(port.queries).toEqual([{ afterMs: 0, sinceMs: T0 - HELD }]);
  });

  it('waits a lease if there is anybody in its list, lists again, books from then', async () => {
    const { port, budget, ask, granted } = await start(['waits', 'b']);
    expect(ask('a')).toMatchObject({ kind: 'waiting', reason: 'counting' });
    await port.wait(LEASE - 1);
    expect(port.sent).toEqual([]);
    port.listed = listed(['b', 'c']);
    await port.wait(1);
    expect(port.queries).toEqual([
      { afterMs: 0, sinceMs: T0 - HELD },
      { afterMs: LEASE, sinceMs: T0 - HELD },
    ]);
    expect(granted()).toEqual(['a']);
    expect(slotEnds(budget.state)).toEqual([HELD, HELD, OVER + HELD].map((ms) => T0 + LEASE + ms));
  });

  it.each([
    ['a lease', ['b']],
    ['for its list', []],
  ])('counts anew if an operator sets a longer window while it waits %s', async (_, sends) => {
    const { port, ask, setWindow } = await start(sends, { listMs: SECOND });
    await port.wait(sends.length * SECOND);
    setWindow(24 * HOUR);
    expect(ask('a')).toMatchObject({ reason: 'counting' });
    await port.wait(SECOND);
    await port.wait(2 * LEASE);
    expect(port.queries.at(-1)?.sinceMs).toBeLessThan(T0 - 23 * HOUR);
    expect(ask('a').kind).toBe('granted');
  });

  it.each([
    ['for its list', [], { listMs: HOUR }, 0],
    ['for its second list', ['b'], {}, LEASE + SECOND],
  ])('lets the next run count if this one grows too long while it waits %s', async (_, sends, options, waitMs) => {
    const { port, budget, ask, isOver } = await start(sends, options);
    port.deliversAtMs = T0 + HOUR;
    await port.wait(waitMs);
    port.isLongRun = true;
    await port.wait();
    expect(isOver()).toBe(false);
    port.isTooLongRun = true;
    expect(ask('a')).toMatchObject({ reason: 'counting' });
    await port.wait();
    expect(isOver()).toBe(true);
    expect(budget.state.isCounting).toBe(true);
    expect(port.queries.length).toBeLessThanOrEqual(2);
  });

  it('waits a lease if the run before did not end its count, even if its list is empty', async () => {
    const { ask, grantedAfter } = await start([], { isContinued: true });
    ask('a');
    expect(await grantedAfter(LEASE)).toEqual(['a']);
  });

  it('takes all slots for used on request', async () => {
    const { port, budget, ask } = await start(['b'], { assumeFull: true });
    await port.wait(LEASE);
    expect(ask('a')).toMatchObject({ kind: 'waiting', expectedAtMs: T0 + LEASE + HELD });
    expect(slotEnds(budget.state)).toHaveLength(3);
  });
});

describe('a budget that was reset', () => {
  it('counts anew, also with an empty list, also when the reset run is reset', async () => {
    const { port, ask, grantedAfter } = await start([], { limit: 10 });
    for (const [index, runId] of ['second', 'third', 'fourth'].entries()) {
      port.runs.push(runId);
      expect(ask(`a${index}`)).toMatchObject({ kind: 'waiting', reason: 'counting' });
      expect(await grantedAfter(LEASE)).toEqual([`a${index}`]);
      await port.wait(HOUR);
    }
    expect(port.queries).toHaveLength(1 + 3 * 2);
    expect(ask('last').kind).toBe('granted');
  });

  it('counts before it grants what a timer frees', async () => {
    const { port, ask, report, granted } = await start([], { limit: 1 });
    ask('a');
    report('outcome', 'a');
    ask('b');
    await port.wait(SECOND);
    port.runs.push('second');
    port.listed = listed(['c']);
    await port.wait(2 * HOUR);
    expect(granted()).toEqual([]);
    expect(port.queries.slice(1)).toMatchObject([{ afterMs: HELD }, { afterMs: HELD + LEASE }]);
  });

  it('counts anew before it grants, also if the reset fell into its first list', async () => {
    const { port, ask, granted } = await start([], { listMs: SECOND });
    ask('a');
    port.runs.push('second');
    await port.wait(LEASE);
    expect(granted()).toEqual([]);
    await port.wait(LEASE + 3 * SECOND);
    expect(granted()).toEqual(['a']);
  });

  it('counts again if there was another reset meanwhile, and remembers from then on', async () => {
    const { port, budget, ask } = await start();
    await port.wait(HOUR);
    port.runs.push('second');
    ask('a');
    expect(budget.state.rememberedSinceMs).toBe(T0 + HOUR);
    await port.wait(LEASE / 2);
    port.runs.push('third');
    await port.wait(LEASE);
    expect(ask('a')).toMatchObject({ kind: 'waiting', reason: 'counting' });
    expect(budget.state.rememberedSinceMs).toBe(T0 + HOUR + LEASE);
    await port.wait(LEASE / 2);
    expect(ask('a')).toMatchObject({ kind: 'granted' });
  });

  it('wakes those who may wait for an earlier budget, once each, but none that has a place in line', async () => {
    const { port, ask } = await start();
    port.listed = listed(['asks'], true);
    port.runs.push('second');
    ask('asks');
    await port.wait(LEASE / 2);
    // The list lags: it did not show that this one waits.
    port.listed = listed(['lost', 'asks'], true);
    await port.wait(LEASE);
    expect(port.sent.filter(({ reply }) => !reply)).toEqual([{ workflowId: followUp('lost') }]);
  });
});

describe('the loop', () => {
  it('sends messages after all asks of the task have their replies', async () => {
    const { port, ask, report, granted } = await start([], { limit: 1 });
    port.isAnswering = true;
    ask('a');
    ask('b');
    report('end', 'a');
    await port.wait(SECOND);
    expect(port.sent).toEqual([]);
    port.isAnswering = false;
    await port.wait();
    expect(granted()).toEqual(['b']);
  });

  it('grants when a slot is free, removes whom a message does not find, and grants to the next', async () => {
    const { port, budget, ask, report, grantedAfter } = await start([], { limit: 1 });
    port.gone = names('gone', 3).map((name) => followUp(name));
    for (const name of ['a', ...names('gone', 3), 'alive']) ask(name);
    report('outcome', 'a');
    expect(await grantedAfter(HELD)).toEqual(['gone0', 'gone1', 'gone2', 'alive']);
    expect(budget.state).toMatchObject({ waiters: [], grants: [{ workflowId: followUp('alive') }] });
  });

  it('ends when its run is long and no message is under way', async () => {
    const { port, ask, report, isOver } = await start([], { limit: 1 });
    ask('a');
    ask('b');
    report('end', 'a');
    port.deliversAtMs = T0 + SECOND;
    await port.wait();
    port.isLongRun = true;
    ask('c');
    await port.wait(SECOND - 1);
    expect(isOver()).toBe(false);
    await port.wait(1);
    expect(isOver()).toBe(true);
  });
});
