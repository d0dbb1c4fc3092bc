import { describe, expect, it } from 'vitest';
import { MINUTE, SECOND } from '../support/times.js';
import { followUp, T0, TestBudget } from './support.js';

/** A follow-up to the job `x`, which started so many seconds after the budget. */
const startedAfter = (seconds: number) => ({ job: 'x', startedAtMs: T0 + seconds * SECOND });

/**
 * A budget with follow-ups to one job, which started in the order of the alphabet: `a` has the turn, `b`, `c` and `d`
 * have the three places, and `e`, `f` and `g` have none.
 */
function newFullLine(): TestBudget {
  const budget = new TestBudget({ capacity: { total: 100, forJob: 3 } });
  budget.advance(MINUTE);
  expect(budget.ask('a', startedAfter(0)).kind).toBe('granted');
  expect(budget.ask('b', startedAfter(1)).kind).toBe('waiting');
  expect(budget.ask('c', startedAfter(2)).kind).toBe('waiting');
  expect(budget.ask('d', startedAfter(3)).kind).toBe('waiting');
  expect(budget.ask('g', startedAfter(6)).kind).toBe('full');
  expect(budget.ask('f', startedAfter(5)).kind).toBe('full');
  expect(budget.ask('e', startedAfter(4)).kind).toBe('full');
  // Checks that the owner of the turn still runs.
  expect(budget.woken()).toEqual(['a']);
  return budget;
}

/** The message of the follow-up that has the turn is sent, and the turn ends. */
function endTurn(budget: TestBudget, name: string): void {
  budget.report(name);
  budget.end(name);
}

describe('follow-ups without a place for their job', () => {
  it('are woken for the next places in the order of their starts', () => {
    const budget = newFullLine();
    endTurn(budget, 'a');
    expect(budget.signalled()).toEqual({ granted: ['b'], woken: ['e'] });
    expect(budget.ask('e').kind).toBe('waiting');
    endTurn(budget, 'b');
    expect(budget.signalled()).toEqual({ granted: ['c'], woken: ['f'] });
    expect(budget.ask('f').kind).toBe('waiting');
    endTurn(budget, 'c');
    expect(budget.signalled()).toEqual({ granted: ['d'], woken: ['g'] });
    endTurn(budget, 'd');
    expect(budget.signalled()).toEqual({ granted: ['e'], woken: [] });
    expect(budget.ask('g').kind).toBe('waiting');
    endTurn(budget, 'e');
    expect(budget.signalled()).toEqual({ granted: ['f'], woken: [] });
    endTurn(budget, 'f');
    expect(budget.signalled()).toEqual({ granted: ['g'], woken: [] });
  });

  it('are not woken if their run ended', () => {
    const budget = newFullLine();
    budget.end('e');
    endTurn(budget, 'a');
    expect(budget.woken()).toEqual(['f']);
  });
});

describe('the place of a follow-up that was woken', () => {
  it('is not given to one that started later and asks first', () => {
    const budget = newFullLine();
    endTurn(budget, 'a');
    expect(budget.ask('h', startedAfter(7)).kind).toBe('full');
    expect(budget.ask('f').kind).toBe('full');
    expect(budget.ask('g').kind).toBe('full');
    expect(budget.ask('e').kind).toBe('waiting');
  });

  it('is given to another one that asks a minute later', () => {
    const budget = newFullLine();
    endTurn(budget, 'a');
    budget.nowMs += MINUTE - 1;
    expect(budget.ask('f').kind).toBe('full');
    budget.nowMs += 1;
    expect(budget.ask('f').kind).toBe('waiting');
  });

  it('goes to the next one after a minute, which is woken', () => {
    const budget = newFullLine();
    endTurn(budget, 'a');
    expect(budget.woken()).toEqual(['e']);
    budget.advance(MINUTE - 1);
    expect(budget.woken()).toEqual([]);
    budget.advance(1);
    expect(budget.woken()).toEqual(['f']);
  });

  it('goes to the next one at once if the follow-up is closed', () => {
    const budget = newFullLine();
    endTurn(budget, 'a');
    expect(budget.woken()).toEqual(['e']);
    budget.noteClosed([{ workflowId: followUp('e', 'x') }]);
    expect(budget.signals()).toEqual([{ workflowId: followUp('f', 'x') }]);
    expect(budget.ask('f').kind).toBe('waiting');
  });

  it('keeps no follow-up to another job away', () => {
    const budget = newFullLine();
    endTurn(budget, 'a');
    expect(budget.ask('other', { startedAtMs: T0 + MINUTE }).kind).toBe('granted');
  });

  it('keeps no follow-up of the other lane away', () => {
    const budget = newFullLine();
    endTurn(budget, 'a');
    expect(budget.ask('other', { job: 'x', lane: 'batch', startedAtMs: T0 + MINUTE }).kind).toBe('waiting');
  });
});
