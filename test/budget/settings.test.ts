import { describe, expect, it } from 'vitest';
import { iso } from '../../src/common/index.js';
import { HOUR, MINUTE, SECOND } from '../support/times.js';
import { HELD, MARGIN, names, T0, TestBudget } from './support.js';

describe('a lower limit', () => {
  it('leaves slots in use until they are free by themselves', () => {
    const budget = new TestBudget({ limit: 3 });
    for (const name of names('a', 3)) {
      budget.send(name);
      budget.advance(MINUTE);
    }
    budget.ask('b');
    budget.setLimit({ limit: 1 });
    expect(budget.usedSlots()).toBe(3);
    expect(budget.nextGrants()).toEqual([HELD - MINUTE, ['b']]);
  });
});

describe('a higher limit', () => {
  it('grants sends to those in line at once, up to what the worker allows', () => {
    const budget = new TestBudget({ limit: 1 });
    budget.askAll(names('a', 6), { maxLimit: 4 });
    budget.setLimit({ limit: 1_000 });
    expect(budget.granted()).toEqual(['a1', 'a2', 'a3']);
    expect(budget.usedSlots()).toBe(4);
  });

  it('grants another send when the configuration of a later worker allows more', () => {
    const budget = new TestBudget({ limit: 1_000 });
    budget.askAll(names('a', 6), { maxLimit: 4 });
    budget.ask('b', { maxLimit: 5 });
    expect(budget.granted()).toEqual(['a4']);
    expect(budget.usedSlots()).toBe(5);
  });
});

describe('a change of one setting', () => {
  it('leaves limit and reserve as they are if it sets the window', () => {
    const budget = new TestBudget({ limit: 2, reserve: 1 });
    budget.send('a');
    budget.setLimit({ windowMs: MINUTE });
    expect(budget.state.settings).toEqual({ limit: 2, windowMs: MINUTE, reserve: 1, marginMs: MARGIN });
    budget.ask('b', { lane: 'batch' });
    expect(budget.nextGrants()).toEqual([MINUTE + MARGIN, ['b']]);
  });

  it('leaves limit and window as they are if it sets the reserve', () => {
    const budget = new TestBudget({ limit: 2 });
    budget.send('a');
    budget.setLimit({ reserve: 1 });
    expect(budget.state.settings).toEqual({ limit: 2, windowMs: HOUR, reserve: 1, marginMs: MARGIN });
    budget.ask('b', { lane: 'batch' });
    expect(budget.nextGrants()).toEqual([HELD, ['b']]);
  });
});

describe("an operator's pause", () => {
  it('lasts until its time', () => {
    const budget = new TestBudget();
    budget.pause({ untilMs: T0 + HOUR });
    expect(budget.ask('a')).toMatchObject({ kind: 'waiting', reason: 'paused', position: 1 });
    expect(budget.nextGrants()).toEqual([HOUR, ['a']]);
  });

  it('lasts until the operator ends it if it has no time', () => {
    const budget = new TestBudget();
    budget.pause();
    expect(budget.ask('a')).toMatchObject({ kind: 'waiting', reason: 'paused' });
    budget.advance(30 * 24 * HOUR);
    expect(budget.granted()).toEqual([]);
    budget.resume();
    expect(budget.granted()).toEqual(['a']);
  });

  it('replaces an earlier one, which had a time', () => {
    const budget = new TestBudget();
    budget.pause({ untilMs: T0 + HOUR });
    budget.pause();
    budget.ask('a');
    budget.advance(2 * HOUR);
    expect(budget.granted()).toEqual([]);
    expect(budget.nextChangeInMs()).toBeUndefined();
  });

  it('shows its time and its note in the reply to an ask', () => {
    const budget = new TestBudget();
    budget.pause({ untilMs: T0 + HOUR, note: 'a release' });
    expect(budget.ask('a')).toMatchObject({ pause: { by: 'operator', until: iso(T0 + HOUR), note: 'a release' } });
  });
});

describe('the timer of a budget', () => {
  it('is set to the end of a pause although nobody waits', () => {
    const budget = new TestBudget();
    budget.pause({ untilMs: T0 + HOUR });
    expect(budget.nextChangeInMs()).toBe(HOUR);
  });

  it('is not set if a pause has no time', () => {
    const budget = new TestBudget();
    budget.pause();
    expect(budget.nextChangeInMs()).toBeUndefined();
  });

  it('is set to when a slot is free if somebody waits', () => {
    const budget = new TestBudget({ limit: 1 });
    budget.send('a');
    budget.ask('b');
    expect(budget.nextChangeInMs()).toBe(HELD);
  });

  it('is not set if nobody waits', () => {
    const budget = new TestBudget({ limit: 1 });
    budget.send('a');
    expect(budget.nextChangeInMs()).toBeUndefined();
  });

  it('is not set if somebody waits for a slot that no time frees', () => {
    const budget = new TestBudget({ limit: 1 });
    budget.send('a');
    budget.setLimit({ limit: 0, windowMs: SECOND });
    budget.advance(HOUR);
    budget.ask('b');
    expect(budget.line()).toEqual(['b']);
    expect(budget.nextChangeInMs()).toBeUndefined();
  });
});
