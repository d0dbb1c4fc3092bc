import { describe, expect, it } from 'vitest';
import { SECOND } from '../support/times.js';
import { names, T0, TestBudget } from './support.js';

/** The asks of follow-ups to one job, which started in this order. */
const first = { job: 'x', startedAtMs: T0 + SECOND };
const second = { job: 'x', startedAtMs: T0 + 2 * SECOND };
const third = { job: 'x', startedAtMs: T0 + 3 * SECOND };
/** How the job is before the ask. */
const atWork = { jobIs: 'at-work' } as const;
const atRest = { jobIs: 'at-rest' } as const;

describe('a follow-up to a job at work', () => {
  it('is to watch the job if the budget does not know whose turn it is', () => {
    const budget = new TestBudget();
    expect(budget.ask('a', atWork)).toMatchObject({ kind: 'waiting', reason: 'job-busy', isToWatch: true });
  });

  it('need not watch the job while another follow-up has the turn', () => {
    const budget = new TestBudget();
    budget.send('owner', { job: 'x' });
    const reply = budget.ask('a', { job: 'x', ...atWork });
    expect(reply).toMatchObject({ kind: 'waiting', reason: 'job-busy' });
    expect(reply).not.toHaveProperty('isToWatch');
  });

  it('is granted a send when the turn of another follow-up ends', () => {
    const budget = new TestBudget();
    budget.send('owner', { job: 'x' });
    budget.ask('a', { job: 'x', ...atWork });
    budget.end('owner');
    expect(budget.granted()).toEqual(['a']);
  });

  // Nobody may receive the reply to a late copy of an ask.
  it('need not watch the job if its ask comes again after the turn of another', () => {
    const budget = new TestBudget();
    budget.send('owner', { job: 'x' });
    budget.ask('a', { job: 'x', ...atWork });
    budget.pause();
    budget.end('owner');
    expect(budget.granted()).toEqual([]);
    const reply = budget.ask('a');
    expect(reply).toMatchObject({ kind: 'waiting', reason: 'paused' });
    expect(reply).not.toHaveProperty('isToWatch');
    budget.resume();
    expect(budget.granted()).toEqual(['a']);
  });

  it('is to watch the job if that works again on a message that the budget does not know', () => {
    const budget = new TestBudget();
    budget.send('a', { job: 'x', ...atRest });
    budget.ask('b', { job: 'x', ...atWork });
    budget.end('a');
    expect(budget.granted()).toEqual(['b']);
    budget.report('b', 'notSent');
    expect(budget.ask('b', { sendNumber: 2 })).toMatchObject({ kind: 'waiting', isToWatch: true });
  });
});

describe('follow-ups to a job at work', () => {
  it('are granted sends in the order of their starts when any of them finds the job at rest', () => {
    const budget = new TestBudget();
    budget.ask('b', { ...second, ...atWork });
    budget.ask('a', { ...first, ...atWork });
    budget.ask('c', { ...third, ...atWork });
    expect(budget.granted()).toEqual([]);
    expect(budget.ask('c', atRest)).toMatchObject({ kind: 'waiting' });
    expect(budget.granted()).toEqual(['a']);
    budget.report('a');
    budget.end('a');
    expect(budget.granted()).toEqual(['b']);
    budget.report('b');
    budget.end('b');
    expect(budget.granted()).toEqual(['c']);
  });

  it('are granted sends in the order of their starts after one that does not wait for the job', () => {
    const budget = new TestBudget();
    budget.ask('a', { ...first, ...atWork });
    budget.send('b', second);
    expect(budget.ask('c', { ...third, ...atWork })).toMatchObject({ kind: 'waiting' });
    budget.end('b');
    expect(budget.granted()).toEqual(['a']);
    budget.report('a');
    budget.end('a');
    expect(budget.granted()).toEqual(['c']);
  });

  it('take at most half of the places in line', () => {
    const budget = new TestBudget({ limit: 0, capacity: { total: 10, forJob: 10 } });
    const fiveWait = ['waiting', 'waiting', 'waiting', 'waiting', 'waiting'];
    expect(budget.askAll(names('busy', 6), atWork)).toEqual([...fiveWait, 'full']);
    expect(budget.askAll(names('free', 6), atRest)).toEqual([...fiveWait, 'full']);
  });
});
