import { describe, expect, it } from 'vitest';
import { iso } from '../../src/common/index.js';
import { HOUR, MINUTE, SECOND } from '../support/times.js';
import { jobAtEnd, names, T0, TestBudget } from './support.js';

/** With a budget of 100 an hour, messages are spaced by this time. */
const SPACING = 36 * SECOND;

/** The service has answered 429, and then accepted the probe `w9`. `w0` to `w8` wait. */
function spacedBudget(): TestBudget {
  const budget = new TestBudget({ limit: 100 });
  budget.ask('first');
  budget.report('first', 'limited');
  budget.askAll(names('w', 10));
  expect(budget.nextGrants()).toEqual([SPACING, ['w9']]);
  budget.report('w9');
  return budget;
}

/** The jobs of `one` to `four` are at work, and the service has just answered 429 to `first`. `a` to `d` wait. */
function pausedBudgetWithTurns(): TestBudget {
  const budget = new TestBudget({ limit: 100 });
  for (const name of ['one', 'two', 'three', 'four']) budget.send(name);
  budget.ask('first');
  budget.report('first', 'limited');
  budget.askAll(['a', 'b', 'c', 'd']);
  budget.signals();
  return budget;
}

describe('a 429 while slots are free', () => {
  it('spaces messages evenly over the window', () => {
    const budget = spacedBudget();
    expect(budget.nextGrants()).toEqual([SPACING, ['w0']]);
    budget.report('w0');
    expect(budget.nextGrants()).toEqual([SPACING, ['w1']]);
  });

  it('spaces messages by the time since the last response', () => {
    const budget = spacedBudget();
    expect(budget.nextGrants()).toEqual([SPACING, ['w0']]);
    budget.advance(10 * SECOND);
    budget.report('w0');
    expect(budget.nextGrants()).toEqual([SPACING, ['w1']]);
  });

  it('is shown by the time between messages and the expected time of each', () => {
    const budget = spacedBudget();
    expect(budget.status().spacingMs).toBe(SPACING);
    expect(budget.status().waiting.slice(0, 2)).toMatchObject([
      { position: 1, expectedAt: iso(T0 + 2 * SPACING) },
      { position: 2, expectedAt: iso(T0 + 3 * SPACING) },
    ]);
  });

  it('has no effect any more after two windows without another', () => {
    const budget = spacedBudget();
    budget.advance(2 * HOUR - SPACING);
    expect(budget.granted()).toEqual(['w0']);
    budget.report('w0');
    expect(budget.status()).toHaveProperty('spacingMs');
    budget.advance(SPACING);
    expect(budget.granted()).toEqual(['w1']);
    budget.report('w1');
    expect(budget.status()).not.toHaveProperty('spacingMs');
    expect(budget.granted()).toEqual(['w2']);
    budget.report('w2');
    expect(budget.granted()).toEqual(['w3', 'w4']);
  });

  it('has no effect any more after an operator has resumed the project', () => {
    const budget = spacedBudget();
    budget.resume();
    expect(budget.granted()).toEqual(['w0', 'w1']);
  });

  it('has no effect any more after an operator has set a limit', () => {
    const budget = spacedBudget();
    budget.setLimit({ limit: 90 });
    expect(budget.granted()).toEqual(['w0', 'w1']);
  });

  it('counts as the first one if it comes long after the others', () => {
    const budget = spacedBudget();
    budget.advance(100 * HOUR);
    expect(budget.granted()).toEqual(['w0']);
    budget.report('w0', 'limited');
    expect(budget.state.pace.limit).toMatchObject({ isSpaced: true, spacingMs: SPACING });
  });

  it('remains the reason of the pause if a message under way gets another refusal', () => {
    const budget = new TestBudget({ limit: 100 });
    budget.askAll(['a', 'b', 'c']);
    budget.report('a', 'limited');
    budget.report('b', 'credentials');
    budget.report('c');
    expect(budget.status().paused).toMatchObject({ reasons: ['limited'] });
  });

  it('does not keep other software from taking free slots', () => {
    const budget = spacedBudget();
    for (const name of names('w', 9)) budget.end(name);
    expect(budget.take('other', 3)).toMatchObject({ taken: true });
  });
});

describe('the time between messages after a 429', () => {
  it('grows by 15 % with another 429', () => {
    const budget = spacedBudget();
    expect(budget.nextGrants()).toEqual([SPACING, ['w0']]);
    budget.report('w0', 'limited');
    expect(budget.status().spacingMs).toBe(41_400);
  });

  it('grows to at most four times the shortest', () => {
    const budget = spacedBudget();
    budget.askAll(names('x', 30));
    for (let time = 1; time <= 12; time++) {
      const [, [refused = '']] = budget.nextGrants();
      budget.report(refused, 'limited');
      const [, [accepted = '']] = budget.nextGrants();
      budget.report(accepted);
    }
    const [, [refused = '']] = budget.nextGrants();
    budget.report(refused, 'limited');
    expect(budget.status().spacingMs).toBe(4 * SPACING);
  });

  it('shrinks by 0.5 % with each accepted message', () => {
    const budget = spacedBudget();
    expect(budget.nextGrants()).toEqual([SPACING, ['w0']]);
    budget.report('w0', 'limited');
    expect(budget.nextGrants()).toEqual([41_400, ['w8']]);
    budget.report('w8');
    expect(budget.status().spacingMs).toBe(41_193);
  });
});

describe('the end of a turn in a pause for a 429', () => {
  it('lets a message probe before the time of the pause is over', () => {
    const budget = pausedBudgetWithTurns();
    budget.end('one', { jobAtEnd });
    expect(budget.granted()).toEqual(['a']);
  });

  it('does not end the pause with the accepted probe', () => {
    const budget = pausedBudgetWithTurns();
    budget.end('one', { jobAtEnd });
    budget.report('a');
    expect(budget.status().paused).toMatchObject({ reasons: ['limited'] });
    expect(budget.granted()).toEqual(['a']);
  });

  it('lets no message probe once such a probe was refused', () => {
    const budget = pausedBudgetWithTurns();
    budget.end('one', { jobAtEnd });
    budget.report('a');
    budget.end('two', { jobAtEnd });
    expect(budget.granted()).toEqual(['a', 'b']);
    budget.report('b', 'limited');
    budget.end('three', { jobAtEnd });
    expect(budget.granted()).toEqual([]);
  });

  it('lets no message probe after another 429', () => {
    const budget = pausedBudgetWithTurns();
    expect(budget.nextGrants()).toEqual([SPACING, ['d']]);
    budget.report('d', 'limited', { retryAfterMs: HOUR });
    budget.end('one', { jobAtEnd });
    expect(budget.nextGrants()).toEqual([HOUR, ['c']]);
    budget.report('c', 'limited');
    expect(budget.granted()).toEqual([]);
  });

  it('lets no message probe before a Retry-After is over', () => {
    const budget = pausedBudgetWithTurns();
    expect(budget.nextGrants()).toEqual([SPACING, ['d']]);
    budget.report('d', 'limited', { retryAfterMs: HOUR });
    budget.end('one', { jobAtEnd });
    expect(budget.nextGrants()).toEqual([HOUR, ['c']]);
  });

  it('is not awaited if only one such probe was accepted', () => {
    const budget = pausedBudgetWithTurns();
    budget.end('one', { jobAtEnd });
    budget.report('a');
    expect(budget.granted()).toEqual(['a']);
    expect(budget.nextGrants()).toEqual([SPACING, ['d']]);
    budget.report('d', 'limited');
    expect(budget.nextGrants()).toEqual([4 * SPACING, ['c']]);
  });

  /** Two accepted probes have proven that the service limits the jobs at work. Then it refused `d`. */
  function budgetThatAwaitsTurns(refusal: { retryAfterMs?: number } = {}): TestBudget {
    const budget = pausedBudgetWithTurns();
    budget.end('one', { jobAtEnd });
    budget.report('a');
    budget.end('two', { jobAtEnd });
    budget.report('b');
    expect(budget.granted()).toEqual(['a', 'b']);
    expect(budget.nextGrants()).toEqual([SPACING, ['d']]);
    budget.report('d', 'limited', refusal);
    return budget;
  }

  it('is awaited for up to an hour once two such probes were accepted', () => {
    const budget = budgetThatAwaitsTurns();
    expect(budget.nextGrants()).toEqual([HOUR, ['c']]);
  });

  it('lets a message probe after a Retry-After although the pause is longer', () => {
    const budget = budgetThatAwaitsTurns({ retryAfterMs: MINUTE });
    budget.end('three', { jobAtEnd });
    expect(budget.nextGrants()).toEqual([MINUTE, ['c']]);
  });

  it('is no longer awaited once no message was accepted for a window', () => {
    const budget = pausedBudgetWithTurns();
    budget.end('one', { jobAtEnd });
    budget.report('a');
    budget.end('two', { jobAtEnd });
    budget.report('b');
    for (const name of ['a', 'b', 'c', 'd', 'three', 'four']) budget.end(name);
    budget.advance(2 * HOUR);
    budget.signals();
    expect(budget.ask('e')).toMatchObject({ kind: 'granted' });
    budget.report('e', 'limited');
    budget.ask('f');
    expect(budget.nextGrants()).toEqual([4 * SPACING, ['f']]);
  });

  it('is no longer awaited once such a probe was refused', () => {
    const budget = budgetThatAwaitsTurns();
    budget.end('three', { jobAtEnd });
    expect(budget.granted()).toEqual(['c']);
    budget.report('c', 'limited');
    budget.ask('e');
    expect(budget.nextGrants()).toEqual([4 * SPACING, ['e']]);
  });
});
