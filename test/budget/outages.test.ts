import { describe, expect, it } from 'vitest';
import { HOUR, MINUTE, SECOND } from '../support/times.js';
import { TestBudget } from './support.js';

/** Three messages have just got 503. */
function budgetInOutage(): TestBudget {
  const budget = new TestBudget({ limit: 100 });
  budget.askAll(['a', 'b', 'c']);
  budget.report('a', 'unknown', { statusCode: 503 });
  budget.report('b', 'unknown', { statusCode: 503 });
  expect(budget.status().paused).toBeUndefined();
  budget.report('c', 'unknown', { statusCode: 503 });
  return budget;
}

describe('messages without a clear response', () => {
  it('pause the project as an outage if they are three in a row', () => {
    const budget = budgetInOutage();
    expect(budget.status().paused).toMatchObject({ reasons: ['outage'], statusCode: 503 });
    expect(budget.ask('d')).toMatchObject({ kind: 'waiting', reason: 'outage' });
  });

  it('pause the project for 30 s, then four times as long after an unclear probe', () => {
    const budget = budgetInOutage();
    budget.askAll(['d', 'e']);
    expect(budget.nextGrants()).toEqual([30 * SECOND, ['e']]);
    budget.report('e', 'unknown', { statusCode: 503 });
    expect(budget.nextGrants()).toEqual([2 * MINUTE, ['d']]);
  });

  it('pause the project until a probe is accepted', () => {
    const budget = budgetInOutage();
    budget.ask('d');
    expect(budget.nextGrants()).toEqual([30 * SECOND, ['d']]);
    budget.report('d');
    expect(budget.state.pace.pause).toBeUndefined();
  });

  it('are counted by their HTTP status beside those that were accepted', () => {
    const budget = budgetInOutage();
    budget.askAll(['d', 'e']);
    expect(budget.nextGrants()).toEqual([30 * SECOND, ['e']]);
    budget.report('e', 'unknown', { statusCode: 503 });
    expect(budget.nextGrants()).toEqual([2 * MINUTE, ['d']]);
    budget.report('d');
    expect(budget.status().refused).toEqual([{ reason: 'outage', statusCode: 503, messages: 4, of: 5, accepted: 1 }]);
  });

  it.each(['sent', 'rejected'] as const)('are no outage if another message was %s in between', (outcome) => {
    const budget = new TestBudget({ limit: 100 });
    budget.askAll(['a', 'b', 'c', 'd']);
    budget.report('a', 'unknown');
    budget.report('b', 'unknown');
    budget.report('c', outcome);
    budget.report('d', 'unknown');
    expect(budget.state.pace.pause).toBeUndefined();
  });

  it('pause the project for 30 s also if they are hours apart', () => {
    const budget = new TestBudget({ limit: 100 });
    for (const name of ['a', 'b', 'c']) {
      budget.advance(10 * HOUR);
      budget.ask(name);
      budget.report(name, 'unknown');
    }
    expect(budget.ask('d')).toMatchObject({ kind: 'waiting', reason: 'outage' });
    expect(budget.nextGrants()).toEqual([30 * SECOND, ['d']]);
  });

  it.each(['sent', 'rejected'] as const)('are followed by one send at a time if one was %s in between', (outcome) => {
    const budget = new TestBudget({ limit: 100 });
    budget.askAll(['a', 'b', 'c', 'd']);
    budget.report('a', 'unknown');
    budget.report('b', 'unknown');
    budget.report('c', outcome);
    budget.report('d', 'unknown');
    expect(budget.ask('e')).toMatchObject({ kind: 'granted' });
    expect(budget.ask('f')).toMatchObject({ kind: 'waiting' });
  });
});
