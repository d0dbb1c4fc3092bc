import { describe, expect, it } from 'vitest';
import { HOUR, MINUTE, SECOND } from '../support/times.js';
import { afterReset, HELD, LEASE, MARGIN, names, OVER, TestBudget } from './support.js';

describe('a slot', () => {
  it.each(['sent', 'rejected', 'notFound', 'limited', 'credentials', 'payment'] as const)(
    'is in use for a window after the outcome "%s"',
    (outcome) => {
      const budget = new TestBudget();
      budget.ask('a');
      budget.ask('other');
      budget.advance(300);
      budget.report('a', outcome);
      expect(budget.slotEndsMs()).toEqual([300 + HELD, OVER + HELD]);
    },
  );

  it('is in use for a window after the last byte can arrive if the outcome is unknown', () => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.advance(300);
    budget.report('a', 'unknown');
    expect(budget.slotEndsMs()).toEqual([OVER + HELD]);
  });

  it('is in use for a window after the last byte can arrive if no outcome is reported', () => {
    const budget = new TestBudget();
    budget.ask('a');
    expect(budget.slotEndsMs()).toEqual([OVER + HELD]);
    budget.advance(OVER + MINUTE);
    expect(budget.slotEndsMs()).toEqual([OVER + HELD]);
  });

  it('is in use for a window after the last byte can arrive if the budget did not grant the send', () => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.report('stranger', 'unknown');
    expect(budget.slotEndsMs()).toEqual([OVER - LEASE + HELD, OVER + HELD]);
  });

  it('is free at once if the message was not sent', () => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.advance(300);
    budget.ask('other');
    budget.report('a', 'notSent');
    expect(budget.slotEndsMs()).toEqual([300 + OVER + HELD]);
  });

  it('stays in use if the follow-up reports only when no byte can arrive any more that it sent nothing', () => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.advance(OVER);
    budget.report('a', 'notSent');
    expect(budget.slotEndsMs()).toEqual([OVER + HELD]);
    expect(budget.ask('a', { sendNumber: 2 })).toMatchObject({ kind: 'granted' });
  });

  it('is freed once although the follow-up reports twice that it sent nothing', () => {
    const budget = new TestBudget({ limit: 2 });
    budget.send('other');
    budget.ask('a');
    budget.report('a', 'notSent');
    budget.report('a', 'notSent');
    expect(budget.slotEndsMs()).toEqual([HELD]);
  });

  it('goes to the next in line when it is free', () => {
    const budget = new TestBudget({ limit: 1 });
    budget.ask('a');
    budget.ask('b');
    budget.advance(300);
    budget.report('a');
    expect(budget.nextGrants()).toEqual([HELD, ['b']]);
  });

  it('stays in use if another run of the follow-up reports that it sent nothing', () => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.report('a', 'notSent', { runId: 'another-run' });
    expect(budget.usedSlots()).toBe(1);
  });

  it('stays in use if the follow-up reports that its next send was not made', () => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.report('a', 'notSent', { sendNumber: 2 });
    expect(budget.usedSlots()).toBe(1);
  });

  it('stays in use if a second report contradicts the first one', () => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.report('a', 'unknown');
    budget.report('a', 'notSent');
    expect(budget.usedSlots()).toBe(1);
    expect(budget.ask('a', afterReset)).toMatchObject({ kind: 'earlierSend', outcome: 'unknown' });
  });

  it('is used once although its outcome is reported twice after the send was over', () => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.advance(OVER);
    budget.report('a');
    budget.report('a');
    expect(budget.usedSlots()).toBe(1);
  });

  it('stays in use if a second report contradicts the first one of a send that the budget did not grant', () => {
    const budget = new TestBudget();
    budget.report('stranger', 'unknown');
    budget.report('stranger', 'notSent');
    expect(budget.usedSlots()).toBe(1);
    expect(budget.ask('stranger', afterReset)).toMatchObject({ kind: 'earlierSend', outcome: 'unknown' });
  });

  it('stays in use if a second report contradicts the first one after the send was over', () => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.advance(OVER);
    budget.report('a');
    budget.report('a', 'notSent');
    expect(budget.usedSlots()).toBe(1);
  });

  it('is used once for each of two sends although the outcome of the first is reported again', () => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.report('a', 'limited');
    budget.advance(10 * MINUTE);
    expect(budget.ask('a', { sendNumber: 2 })).toMatchObject({ kind: 'granted' });
    budget.report('a', 'unknown');
    budget.report('a', 'limited', { sendNumber: 1 });
    expect(budget.usedSlots()).toBe(2);
    expect(budget.ask('a', afterReset)).toMatchObject({ kind: 'earlierSend', outcome: 'unknown' });
  });

  it('stays free while ten sends are under way', () => {
    const budget = new TestBudget({ limit: 100 });
    budget.askAll(names('a', 14));
    expect(budget.line()).toEqual(['a10', 'a11', 'a12', 'a13']);
  });

  it('goes to the next in line when one of ten sends under way has an outcome', () => {
    const budget = new TestBudget({ limit: 100 });
    budget.askAll(names('a', 14));
    budget.report('a3');
    expect(budget.granted()).toEqual(['a10']);
  });

  it('goes to the next in line when the lease of one of ten sends under way has passed', () => {
    const budget = new TestBudget({ limit: 100 });
    budget.ask('first');
    budget.advance(SECOND);
    budget.askAll(names('a', 11));
    expect(budget.line()).toEqual(['a9', 'a10']);
    expect(budget.nextGrants()).toEqual([LEASE - SECOND, ['a9']]);
    expect(budget.nextGrants()).toEqual([SECOND, ['a10']]);
  });
});

describe('the clock of a budget', () => {
  it('frees no slot early if it goes back', () => {
    const budget = new TestBudget({ limit: 2 });
    budget.send('a');
    budget.ask('b');
    budget.nowMs -= 30 * MINUTE;
    budget.report('b');
    budget.ask('c');
    expect(budget.nextGrants()).toEqual([HELD, ['c']]);
  });

  it('frees no slot within the window if it is ahead by less than the margin', () => {
    const budget = new TestBudget({ limit: 1 });
    budget.send('a');
    budget.ask('b');
    budget.advance(HOUR + MARGIN - 1);
    expect(budget.granted()).toEqual([]);
    budget.advance(1);
    expect(budget.granted()).toEqual(['b']);
  });
});

describe('the clock of a follow-up', () => {
  it('keeps no slot in use for longer than a window after the report if it is ahead', () => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.advance(10 * SECOND);
    budget.report('a', 'sent', { atMs: budget.nowMs + HOUR });
    expect(budget.slotEndsMs()).toEqual([10 * SECOND + HELD]);
  });

  it('keeps a slot in use for a window after the grant if it is behind', () => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.advance(10 * SECOND);
    budget.report('a', 'sent', { atMs: budget.nowMs - HOUR });
    expect(budget.slotEndsMs()).toEqual([HELD]);
  });
});

describe('a longer window', () => {
  it('uses the slots again that a shorter window has freed, also above a lower limit', () => {
    const budget = new TestBudget({ limit: 2 });
    budget.send('a');
    budget.send('b');
    budget.setLimit({ windowMs: MINUTE });
    budget.advance(2 * MINUTE);
    expect(budget.slotEndsMs()).toEqual([]);
    budget.setLimit({ limit: 1, windowMs: HOUR });
    expect(budget.slotEndsMs()).toEqual([HELD, HELD]);
  });

  it('counts a slot that is still in use only once', () => {
    const budget = new TestBudget({ limit: 2 });
    for (const name of ['a', 'b']) {
      budget.send(name);
      budget.end(name);
    }
    budget.setLimit({ windowMs: MINUTE });
    budget.advance(2 * MINUTE);
    for (const name of ['c', 'd']) {
      budget.send(name);
      budget.end(name);
    }
    budget.setLimit({ limit: 1, windowMs: HOUR });
    expect(budget.slotEndsMs()).toEqual([HELD, HELD, 2 * MINUTE + HELD, 2 * MINUTE + HELD]);
  });

  it('uses the slots again only once if it is set twice', () => {
    const budget = new TestBudget({ windowMs: MINUTE });
    budget.send('a');
    budget.advance(2 * MINUTE);
    budget.setLimit({ windowMs: HOUR });
    budget.setLimit({ windowMs: 2 * HOUR });
    expect(budget.usedSlots()).toBe(1);
  });

  it('uses again the slot of a send whose outcome was reported after it was free', () => {
    const budget = new TestBudget({ windowMs: MINUTE });
    budget.ask('a');
    budget.advance(OVER + 5 * MINUTE);
    budget.report('a');
    expect(budget.slotEndsMs()).toEqual([]);
    budget.setLimit({ windowMs: HOUR });
    expect(budget.slotEndsMs()).toEqual([OVER + HELD]);
  });

  it('uses again the slot of a send whose outcome was never reported', () => {
    const budget = new TestBudget({ windowMs: MINUTE });
    budget.ask('a');
    budget.advance(OVER + 5 * MINUTE);
    expect(budget.slotEndsMs()).toEqual([]);
    budget.setLimit({ windowMs: HOUR });
    expect(budget.slotEndsMs()).toEqual([OVER + HELD]);
  });

  it('does not use the slot again of a message that was not sent', () => {
    const budget = new TestBudget({ windowMs: MINUTE });
    budget.ask('a');
    budget.report('a', 'notSent');
    budget.advance(OVER + 5 * MINUTE);
    budget.setLimit({ windowMs: HOUR });
    expect(budget.slotEndsMs()).toEqual([]);
  });

  it('uses only the latest slots again, as many as the worker allows', () => {
    const budget = new TestBudget({ windowMs: MINUTE });
    for (const name of names('a', 5)) {
      budget.send(name, { maxLimit: 3 });
      budget.advance(2 * MINUTE);
    }
    budget.setLimit({ windowMs: HOUR });
    expect(budget.slotEndsMs()).toEqual([2, 3, 4].map((index) => 2 * index * MINUTE + HELD));
  });

  it('does not make the budget count if the budget remembers all of it', () => {
    const budget = new TestBudget();
    budget.advance(2 * HOUR);
    budget.setLimit({ windowMs: 2 * HOUR });
    expect(budget.state.isCounting).toBe(false);
  });

  it('makes the budget count if it begins before the memory of the budget', () => {
    const budget = new TestBudget();
    budget.advance(2 * HOUR);
    budget.setLimit({ windowMs: 2 * HOUR + 1 });
    expect(budget.state.isCounting).toBe(true);
  });
});

describe('a shorter window', () => {
  it('does not make the budget count although it begins before the memory of the budget', () => {
    const budget = new TestBudget();
    budget.advance(SECOND);
    budget.setLimit({ windowMs: MINUTE });
    expect(budget.state.isCounting).toBe(false);
  });
});
