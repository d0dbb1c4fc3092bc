import { describe, expect, it } from 'vitest';
import { describeBudget } from '../../src/budget/budget-details.js';
import { iso, toMarkdown } from '../../src/common/index.js';
import { HOUR, MINUTE } from '../support/times.js';
import { closed, followUp, HELD, OVER, T0, TestBudget } from './support.js';

const descriptionOf = (budget: TestBudget) => toMarkdown((at) => describeBudget(budget.status(), at), budget.nowMs);

describe('the description of a budget', () => {
  it('does not say that other messages are accepted if each was refused for its own reason', () => {
    const budget = new TestBudget();
    budget.askAll(['bad', 'unclear']);
    budget.report('bad', 'rejected', { statusCode: 400 });
    budget.report('unclear', 'unknown', { statusCode: 502 });
    expect(descriptionOf(budget)).toContain('- refused or unclear: 502 to 1 of 2 messages\n');
  });

  it('does not say that other messages are accepted if that was before a key was revoked', () => {
    const budget = new TestBudget();
    budget.send('good');
    budget.advance(40 * MINUTE);
    budget.askAll(['a', 'b']);
    budget.report('a', 'credentials', { statusCode: 401 });
    budget.report('b', 'credentials', { statusCode: 401 });
    expect(budget.status().refused).toMatchObject([{ messages: 2, of: 3, accepted: 0 }]);
    expect(descriptionOf(budget)).toMatch(/^\*\*paused: the service answers 401 to 2 of 3 messages since /);
  });

  it('names the HTTP status with which the service refused a read', () => {
    const budget = new TestBudget();
    budget.ask('a', { refusal: 'credentials', statusCode: 403 });
    expect(descriptionOf(budget)).toMatch(/^\*\*paused: the service answers 403 since /);
  });
});

describe('the description of a pause', () => {
  it('names the time of the next try, and says that a message is tried once that time has passed', () => {
    const budget = new TestBudget();
    budget.ask('a', { refusal: 'credentials', statusCode: 403 });
    budget.ask('b');
    expect(descriptionOf(budget)).toMatch(/tries again \d\d:\d\d:\d\d UTC/);
    budget.advance(MINUTE);
    expect(budget.status().underWay).toBe(1);
    expect(descriptionOf(budget)).toMatch(/since \d\d:\d\d:\d\d UTC, a message is tried now\*\*/);
  });
});

describe('the reply to an ask', () => {
  it('names the HTTP status of a read after which the project paused', () => {
    const budget = new TestBudget();
    budget.ask('a', { refusal: 'credentials', statusCode: 403 });
    expect(budget.ask('b')).toMatchObject({ reason: 'credentials', pause: { by: 'service', statusCode: 403 } });
  });
});

describe('the status of a budget', () => {
  it('says when the next slot can be granted if its limit was lowered below what is used', () => {
    const budget = new TestBudget();
    for (const name of ['a', 'b', 'c']) {
      budget.send(name);
      budget.advance(MINUTE);
    }
    budget.setLimit({ limit: 1 });
    expect(budget.status().nextFreeSlotAt).toBe(iso(T0 + 2 * MINUTE + HELD));
    expect(descriptionOf(budget)).toMatch(
      /^\*\*sends nothing until .* UTC: 3 slots are in use, more than its limit of 1/,
    );
    budget.advance(HELD);
    expect(budget.status()).not.toHaveProperty('nextFreeSlotAt');
  });

  it('counts neither refused messages nor those under way as accepted', () => {
    const budget = new TestBudget();
    budget.askAll(['unclear', 'good', 'bad', 'under-way']);
    budget.report('unclear', 'unknown', { statusCode: 502 });
    budget.report('good', 'sent');
    budget.report('bad', 'rejected', { statusCode: 400 });
    expect(budget.status().refused).toEqual([{ reason: 'outage', statusCode: 502, messages: 1, of: 3, accepted: 1 }]);
  });

  it('shows listed sends as unknown, and none of them as refused', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.book([closed('a'), closed('b')]);
    const status = budget.status();
    expect(status).not.toHaveProperty('refused');
    expect(status.lastSends).toMatchObject([{ outcome: 'unknown' }, { outcome: 'unknown' }]);
  });

  it('shows a send without an outcome as under way', () => {
    const budget = new TestBudget();
    budget.ask('a');
    const { lastSends, underWay } = budget.status();
    expect(underWay).toBe(1);
    expect(lastSends).toMatchObject([{ workflowId: followUp('a') }]);
    expect(lastSends[0]).not.toHaveProperty('outcome');
  });

  it('shows a send as unknown once no byte of it can arrive, even if no event came since', () => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.nowMs += OVER;
    expect(budget.status()).toMatchObject({ underWay: 0, lastSends: [{ outcome: 'unknown' }] });
  });

  it('shows the outcome of a send although it was reported late', () => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.advance(2 * HOUR);
    budget.report('a');
    expect(budget.status().lastSends).toMatchObject([{ outcome: 'sent' }]);
  });
});
