import { describe, expect, it } from 'vitest';
import { Budget, type FollowUpSignal } from '../../src/budget/budget.js';
import type { ListedFollowUp } from '../../src/budget/counting.js';
import { BudgetLoop, type BudgetPort, type RecentSends } from '../../src/budget/loop.js';
import { slotEnds } from '../../src/budget/slots.js';
import { newState } from '../../src/budget/state.js';
import { HOUR, SECOND } from '../support/times.js';
import { askOf, closed, followUp, HELD, LEASE, MARGIN, nameOf, names, OVER, running, T0 } from './support.js';

/** A workflow on Temporal, whose time passes by order. */
class FakePort implements BudgetPort {
  readonly originalRunId = 'first';
  isContinued = false;
  readonly runs = ['first'];
  time = T0;
  listed: ListedFollowUp[] = [];
  readonly queries: { afterMs: number; sinceMs: number }[] = [];
  sent: FollowUpSignal[] = [];
  /** Follow-ups that no signal finds. */
  closedIds: string[] = [];
  isAnswering = false;
  isLongRun = false;
  isTooLongRun = false;
  /** Until when signals and lists are under way. */
  deliversAtMs = 0;
  #conditions: { isOver: () => boolean; untilMs: number; resolve: (isOver: boolean) => void }[] = [];

  nowMs = () => this.time;
  isNextRunDue = () => this.isLongRun;
  mustNextRunBegin = () => this.isTooLongRun;
  show = () => undefined;
  patched = () => true;

  get runId(): string {
    return this.runs.at(-1)!;
  }

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
    return !this.closedIds.includes(signal.workflowId);
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
      const timesMs = [this.deliversAtMs, ...this.#conditions.map(({ untilMs }) => untilMs)];
      this.time = Math.min(endMs, ...timesMs.filter((ms) => ms > this.time));
    }
  }
}

/** A follow-up that waits, in the list of those that may have sent. */
const waiting = (name: string): ListedFollowUp => ({ ...running(name), isWaiting: true });

/** Starts a budget with a list of sends. */
async function start(
  sends: readonly ListedFollowUp[] = [],
  { limit = 3, assumeFull = false, listMs = 0, isContinued = false } = {},
) {
  const port = new FakePort();
  Object.assign(port, { isContinued, listed: sends, deliversAtMs: T0 + listMs });
  const budget = new Budget(newState({ limit, windowMs: HOUR, reserve: 0, marginMs: MARGIN }, T0));
  const loop = new BudgetLoop(budget, port);
  let isOver = false;
  void loop.run(assumeFull).then(() => (isOver = true));
  await port.wait();
  const granted = () => {
    const sent = port.sent.splice(0).filter(({ reply }) => reply?.kind === 'granted');
    return sent.map(nameOf);
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

describe('a new budget', () => {
  it('grants a send at once if the list of recent sends is empty', async () => {
    const { port, ask } = await start();
    expect(ask('a')).toMatchObject({ kind: 'granted', grantedAtMs: T0 });
    expect(port.queries).toEqual([{ afterMs: 0, sinceMs: T0 - HELD }]);
  });

  it('grants nothing for a lease if there are recent sends, and lists them again', async () => {
    const { port, ask, granted } = await start([closed('b')]);
    expect(ask('a')).toMatchObject({ kind: 'waiting', reason: 'counting' });
    await port.wait(LEASE - 1);
    expect(port.sent).toEqual([]);
    await port.wait(1);
    expect(port.queries).toEqual([
      { afterMs: 0, sinceMs: T0 - HELD },
      { afterMs: LEASE, sinceMs: T0 - HELD },
    ]);
    expect(granted()).toEqual(['a']);
  });

  it('uses slots for the sends of its second list from then on', async () => {
    const { port, budget, ask } = await start([closed('b'), closed('c')]);
    ask('a');
    port.listed = [closed('c'), closed('d')];
    await port.wait(LEASE);
    const endMs = T0 + LEASE + HELD;
    expect(slotEnds(budget.state)).toEqual([endMs, endMs, endMs + OVER]);
  });

  it('uses no slot for a follow-up that waits, also if its first list did not show that', async () => {
    const { port, budget } = await start([closed('b'), closed('c')]);
    port.listed = [waiting('b'), closed('c')];
    await port.wait(LEASE);
    expect(slotEnds(budget.state)).toEqual([T0 + LEASE + HELD]);
  });

  it.each([
    ['for its first list', { sends: [], afterMs: 0 }],
    ['for a lease', { sends: [closed('b')], afterMs: SECOND }],
  ])('counts again if an operator sets a longer window while it waits %s', async (_, { sends, afterMs }) => {
    const { port, ask, setWindow } = await start(sends, { listMs: SECOND });
    await port.wait(afterMs);
    setWindow(24 * HOUR);
    expect(ask('a')).toMatchObject({ reason: 'counting' });
    await port.wait(SECOND + 2 * LEASE);
    expect(port.queries.at(-1)?.sinceMs).toBeLessThan(T0 - 23 * HOUR);
    expect(ask('a').kind).toBe('granted');
  });

  it.each([
    ['for its first list', { sends: [], listMs: HOUR, afterMs: 0, queries: 1 }],
    ['for a lease', { sends: [closed('b')], listMs: 0, afterMs: SECOND, queries: 1 }],
    ['for its second list', { sends: [closed('b')], listMs: 0, afterMs: LEASE + SECOND, queries: 2 }],
  ])(
    'lets the next run count if this one is too long while it waits %s',
    async (_, { sends, listMs, afterMs, queries }) => {
      const { port, budget, ask, isOver } = await start(sends, { listMs });
      port.deliversAtMs = T0 + HOUR;
      await port.wait(afterMs);
      port.isLongRun = true;
      await port.wait();
      expect(isOver()).toBe(false);
      port.isTooLongRun = true;
      expect(ask('a')).toMatchObject({ reason: 'counting' });
      await port.wait();
      expect(isOver()).toBe(true);
      expect(budget.state.isCounting).toBe(true);
      expect(port.queries).toHaveLength(queries);
    },
  );

  it('grants nothing for a lease if the run before was still counting, although its list is empty', async () => {
    const { ask, grantedAfter } = await start([], { isContinued: true });
    ask('a');
    expect(await grantedAfter(LEASE)).toEqual(['a']);
  });

  it('uses all slots if an operator does not trust the list', async () => {
    const { port, budget, ask } = await start([closed('b')], { limit: 3, assumeFull: true });
    await port.wait(LEASE);
    expect(ask('a')).toMatchObject({ kind: 'waiting', expectedAtMs: T0 + LEASE + HELD });
    expect(slotEnds(budget.state)).toHaveLength(3);
  });
});

describe('a budget that was reset', () => {
  it('counts again after each reset, also if its list is empty', async () => {
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

  it('counts before it grants a slot that time has freed', async () => {
    const { port, ask, report, granted } = await start([], { limit: 1 });
    ask('a');
    report('outcome', 'a');
    ask('b');
    await port.wait(SECOND);
    port.runs.push('second');
    port.listed = [closed('c')];
    await port.wait(2 * HOUR);
    expect(granted()).toEqual([]);
    expect(port.queries.slice(1)).toMatchObject([{ afterMs: HELD }, { afterMs: HELD + LEASE }]);
  });

  it('counts before it grants if the reset came while it waited for its first list', async () => {
    const { port, ask, granted } = await start([], { listMs: SECOND });
    ask('a');
    port.runs.push('second');
    await port.wait(LEASE);
    expect(granted()).toEqual([]);
    await port.wait(LEASE + 3 * SECOND);
    expect(granted()).toEqual(['a']);
  });

  it('counts again if another reset comes while it counts', async () => {
    const { port, ask, granted } = await start();
    await port.wait(HOUR);
    port.runs.push('second');
    ask('a');
    await port.wait(LEASE / 2);
    port.runs.push('third');
    await port.wait(1.5 * LEASE - 1);
    expect(granted()).toEqual([]);
    expect(ask('a')).toMatchObject({ kind: 'waiting', reason: 'counting' });
    await port.wait(1);
    expect(granted()).toEqual(['a']);
    expect(ask('a')).toMatchObject({ kind: 'granted' });
  });

  it('remembers sends from when it finds that it was reset', async () => {
    const { port, budget, ask } = await start();
    await port.wait(HOUR);
    port.runs.push('second');
    ask('a');
    expect(budget.state.rememberedSinceMs).toBe(T0 + HOUR);
    await port.wait(2 * LEASE);
    expect(budget.state.rememberedSinceMs).toBe(T0 + HOUR);
  });

  it('remembers sends from when its second list shows another reset', async () => {
    const { port, budget, ask } = await start();
    await port.wait(HOUR);
    port.runs.push('second');
    ask('a');
    await port.wait(LEASE / 2);
    port.runs.push('third');
    await port.wait(LEASE);
    expect(budget.state.rememberedSinceMs).toBe(T0 + HOUR + LEASE);
  });

  it('wakes a follow-up once that may have waited for its reply before the reset', async () => {
    const { port, ask } = await start();
    port.listed = [waiting('lost')];
    port.runs.push('second');
    ask('a');
    await port.wait(1.5 * LEASE);
    expect(port.sent.filter(({ reply }) => !reply)).toEqual([{ workflowId: followUp('lost') }]);
  });

  it('wakes also a follow-up that only its second list shows to wait', async () => {
    const { port, ask } = await start();
    port.listed = [];
    port.runs.push('second');
    ask('a');
    await port.wait(LEASE / 2);
    port.listed = [waiting('lost')];
    await port.wait(LEASE);
    expect(port.sent.filter(({ reply }) => !reply)).toEqual([{ workflowId: followUp('lost') }]);
  });

  it('does not wake a follow-up that has a place in line', async () => {
    const { port, ask } = await start();
    port.listed = [waiting('lost'), waiting('asks')];
    port.runs.push('second');
    ask('asks');
    await port.wait(1.5 * LEASE);
    expect(port.sent.filter(({ reply }) => !reply)).toEqual([{ workflowId: followUp('lost') }]);
  });
});

describe('the loop', () => {
  it('sends signals after all asks of the workflow task have their replies', async () => {
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

  it('grants a send when time has freed a slot', async () => {
    const { ask, report, grantedAfter } = await start([], { limit: 1 });
    ask('a');
    ask('b');
    report('outcome', 'a');
    expect(await grantedAfter(HELD)).toEqual(['b']);
  });

  it('grants the slot of a follow-up that its signal does not find to the next in line', async () => {
    const { port, budget, ask, report, grantedAfter } = await start([], { limit: 1 });
    port.closedIds = names('closed', 3).map((name) => followUp(name));
    for (const name of ['a', ...names('closed', 3), 'alive']) ask(name);
    report('outcome', 'a');
    expect(await grantedAfter(HELD)).toEqual(['closed0', 'closed1', 'closed2', 'alive']);
    expect(budget.state).toMatchObject({ waiters: [], grants: [{ workflowId: followUp('alive') }] });
  });

  it('counts after a reset before it ends because its run is long', async () => {
    const { port, isOver } = await start();
    await port.wait(HOUR);
    port.runs.push('second');
    port.isLongRun = true;
    await port.wait(LEASE - 1);
    expect(isOver()).toBe(false);
    await port.wait(1);
    expect(isOver()).toBe(true);
    expect(port.queries).toHaveLength(3);
  });

  it('ends when its run is long, but not while a signal is under way', async () => {
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
