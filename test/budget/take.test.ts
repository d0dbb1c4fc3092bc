import { describe, expect, it } from 'vitest';
import { iso } from '../../src/common/index.js';
import { HOUR, MINUTE } from '../support/times.js';
import { HELD, names, T0, TestBudget } from './support.js';

describe('slots that are taken for other messages', () => {
  it('are in use for a window', () => {
    const budget = new TestBudget({ limit: 5 });
    expect(budget.take('key', 2)).toEqual({ taken: true, count: 2, takenAt: iso(T0) });
    expect(budget.status()).toMatchObject({ used: 2, nextFreeSlotAt: iso(T0 + HELD) });
  });

  it('are shown among the last sends', () => {
    const budget = new TestBudget({ limit: 5 });
    budget.take('key', 2);
    const shown = { workflowId: 'take/key', sendNumber: 2, grantedAt: iso(T0), outcomeAt: iso(T0), outcome: 'taken' };
    expect(budget.status().lastSends).toEqual([shown]);
  });

  it('are taken all or none, and the reply says when all can be taken', () => {
    const budget = new TestBudget({ limit: 5 });
    budget.take('one', 2);
    budget.advance(MINUTE);
    budget.take('two', 2);
    const possibleAt = iso(T0 + HELD);
    expect(budget.take('three', 3)).toEqual({ taken: false, count: 3, waitReason: 'slot', possibleAt });
    expect(budget.take('three', 4)).toMatchObject({ taken: false, possibleAt: iso(T0 + MINUTE + HELD) });
    expect(budget.usedSlots()).toBe(4);
  });

  it('can be taken once they are free for a key that took none before', () => {
    const budget = new TestBudget({ limit: 5 });
    budget.take('one', 2);
    budget.advance(MINUTE);
    budget.take('two', 2);
    expect(budget.take('three', 3)).toMatchObject({ taken: false });
    budget.askAll(['a', 'b']);
    budget.advance(HELD - MINUTE);
    expect(budget.granted()).toEqual(['b']);
    expect(budget.take('three', 1)).toMatchObject({ taken: true });
  });

  it('are taken once for a key, even in a later window and in a new run of the budget', () => {
    const budget = new TestBudget({ limit: 5, isRebuilt: true });
    const first = budget.take('key', 3);
    expect(first).toEqual({ taken: true, count: 3, takenAt: iso(T0) });
    budget.advance(2 * HOUR);
    budget.ask('a');
    expect(budget.take('key', 2)).toEqual(first);
    expect(budget.status().used).toBe(1);
  });

  it('leave a slot to each follow-up in line', () => {
    const budget = new TestBudget({ limit: 20 });
    budget.askAll(names('a', 13));
    expect(budget.line()).toEqual(['a10', 'a11', 'a12']);
    expect(budget.take('key', 8)).toMatchObject({ taken: false, waitReason: 'slot' });
    expect(budget.take('key', 7)).toMatchObject({ taken: true });
  });

  it('leave no slot to a follow-up whose job is busy', () => {
    const budget = new TestBudget({ limit: 20 });
    budget.askAll(names('a', 13));
    budget.ask('b', { job: 'a0' });
    expect(budget.take('key', 7)).toMatchObject({ taken: true });
  });

  it('leave the batch lane only the slots that it may use', () => {
    const budget = new TestBudget({ limit: 10, reserve: 5 });
    budget.askAll(names('a', 30), { lane: 'batch' });
    expect(budget.take('key', 6)).toMatchObject({ taken: false, waitReason: 'slot' });
    expect(budget.take('key', 5)).toMatchObject({ taken: true });
  });

  it('leave a slot to each follow-up in the batch lane that may use one', () => {
    const budget = new TestBudget({ limit: 20, reserve: 5 });
    budget.askAll(names('a', 13), { lane: 'batch' });
    expect(budget.line()).toEqual(['a10', 'a11', 'a12']);
    expect(budget.take('key', 8)).toMatchObject({ taken: false, waitReason: 'slot' });
    expect(budget.take('key', 7)).toMatchObject({ taken: true });
  });

  it('are refused while an operator pauses the project', () => {
    const budget = new TestBudget();
    budget.pause({ untilMs: T0 + MINUTE });
    expect(budget.take('key', 1)).toEqual({ taken: false, count: 1, waitReason: 'paused' });
  });

  it('are refused while the budget counts', () => {
    const budget = new TestBudget({ isCounting: true });
    expect(budget.take('key', 1)).toMatchObject({ taken: false, waitReason: 'counting' });
  });

  it('are refused while the service refuses the API key of the project', () => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.report('a', 'credentials');
    expect(budget.take('key', 1)).toMatchObject({ taken: false, waitReason: 'credentials' });
  });
});
