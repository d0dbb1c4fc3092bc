import { describe, expect, it } from 'vitest';
import { Budget } from '../../src/budget/budget.js';
import { newState } from '../../src/budget/state.js';
import type { Ask, AskReply, Granted } from '../../src/protocol/index.js';
import { askOf, followUp, names, SECOND, T0 } from './rules.js';

const settings = { limit: 100, windowMs: 3_600_000, reserve: 0, marginMs: 0 };
const RETRY_MS = 60 * SECOND;

/** Follow-ups to one job, `0` the oldest, and a budget that has three places for it. */
class OneJob {
  nowMs = T0 + 1_000_000;
  readonly budget = new Budget(newState(settings, T0), { total: 100, forJob: 3 });

  constructor() {
    this.budget.book(this.nowMs, []);
  }

  ask(name: number, change: Partial<Ask> = {}): AskReply['kind'] {
    return this.replyTo(name, change).kind;
  }

  replyTo(name: number, change: Partial<Ask> = {}): AskReply {
    const startedAtMs = T0 + name * SECOND;
    return this.budget.ask(this.nowMs, askOf(String(name), { job: 'job', startedAtMs, ...change }));
  }

  /** Names of the follow-ups that have been granted a slot by signal. */
  granted(): string[] {
    const signals = this.budget.flushSignals().filter(({ reply }) => isGranted(reply));
    return signals.map(({ workflowId }) => workflowId.split('/').at(-1) ?? '');
  }

  /** Ends the turn of a follow-up that was granted one. Returns which it wakes, and which is granted the next turn. */
  endTurn(name: number): { woken: string[]; granted: string[] } {
    const workflowId = followUp(String(name), 'job');
    const runId = `run-of-${name}`;
    this.budget.flushSignals();
    const sent = { workflowId, runId, sendNumber: 1, outcome: 'sent', atMs: this.nowMs } as const;
    this.budget.receive(this.nowMs, { kind: 'outcome', ...sent });
    this.budget.receive(this.nowMs, { kind: 'end', workflowId, runId });
    const signals = this.budget.flushSignals();
    const nameOf = (id: string) => id.split('/').at(-1) ?? '';
    return {
      woken: signals.flatMap((signal) => (signal.reply ? [] : [nameOf(signal.workflowId)])),
      granted: signals.flatMap(({ workflowId: id, reply }) => (isGranted(reply) ? [nameOf(id)] : [])),
    };
  }
}

const isGranted = (reply: AskReply | undefined): reply is Granted => reply?.kind === 'granted';

/** The first has the turn, three have places, and three have none. */
function newCrowd(): OneJob {
  const job = new OneJob();
  expect([0, 1, 2, 3].map((name) => job.ask(name))).toEqual(['granted', 'waiting', 'waiting', 'waiting']);
  expect([6, 5, 4].map((name) => job.ask(name))).toEqual(['full', 'full', 'full']);
  return job;
}

describe('follow-ups without a place for their job', () => {
  it('get the next ones in the order of their starts', () => {
    const job = newCrowd();
    expect(job.endTurn(0)).toEqual({ woken: ['4'], granted: ['1'] });
    expect(job.ask(4)).toBe('waiting');
    expect(job.endTurn(1)).toEqual({ woken: ['5'], granted: ['2'] });
    expect(job.ask(5)).toBe('waiting');
    expect(job.endTurn(2)).toEqual({ woken: ['6'], granted: ['3'] });
    expect(job.endTurn(3)).toEqual({ woken: [], granted: ['4'] });
    expect(job.ask(6)).toBe('waiting');
    expect(job.endTurn(4)).toEqual({ woken: [], granted: ['5'] });
    expect(job.endTurn(5)).toEqual({ woken: [], granted: ['6'] });
  });

  it('keep their turn before one that asks first when there is a place, but starts later', () => {
    const job = newCrowd();
    job.endTurn(0);
    expect([7, 5, 6, 4].map((name) => job.ask(name))).toEqual(['full', 'full', 'full', 'waiting']);
  });

  it('lose it if they do not come back for a minute', () => {
    const job = newCrowd();
    job.endTurn(0);
    job.nowMs += RETRY_MS - 1;
    expect(job.ask(5)).toBe('full');
    job.nowMs += 1;
    expect(job.ask(5)).toBe('waiting');
  });

  it('lose it if they ended', () => {
    const job = newCrowd();
    job.budget.receive(job.nowMs, { kind: 'end', workflowId: followUp('4', 'job'), runId: 'run-of-4' });
    expect(job.endTurn(0).woken).toEqual(['5']);
    job.budget.noteClosed(job.nowMs, { workflowId: followUp('5', 'job') });
    job.budget.advance(job.nowMs);
    expect(job.budget.flushSignals().map(({ workflowId }) => workflowId)).toEqual([followUp('6', 'job')]);
    expect(job.ask(6)).toBe('waiting');
  });

  it('keep nobody of another lane or another job away', () => {
    const job = newCrowd();
    job.endTurn(0);
    expect(job.budget.ask(job.nowMs, askOf('x', { job: 'another' })).kind).toBe('granted');
  });
});

describe('follow-ups to a job at work', () => {
  const [jobAtWork, jobAtRest] = [{ jobIs: 'at-work' }, { jobIs: 'at-rest' }] as const;

  it('watch it if the budget does not know whose turn it is', () => {
    const job = new OneJob();
    expect(job.replyTo(1, jobAtWork)).toMatchObject({ kind: 'waiting', reason: 'job-busy', isToWatch: true });
  });

  it('do not if it is the turn of a follow-up, whose end the budget learns', () => {
    const job = new OneJob();
    expect(job.ask(0)).toBe('granted');
    const reply = job.replyTo(1, jobAtWork);
    expect(reply).toMatchObject({ kind: 'waiting', reason: 'job-busy' });
    expect(reply).not.toHaveProperty('isToWatch');
    expect(job.endTurn(0).granted).toEqual(['1']);
  });

  it('are sent in the order of their starts, whoever sees first that it rests', () => {
    const job = new OneJob();
    for (const name of [2, 1, 3]) job.ask(name, jobAtWork);
    expect(job.granted()).toEqual([]);
    expect(job.ask(3, jobAtRest)).toBe('waiting');
    expect(job.granted()).toEqual(['1']);
    expect(job.endTurn(1).granted).toEqual(['2']);
    expect(job.endTurn(2).granted).toEqual(['3']);
  });

  it('are sent after one that does not wait for the job, in the order of their starts', () => {
    const job = new OneJob();
    job.ask(1, jobAtWork);
    expect(job.ask(2)).toBe('granted');
    expect(job.ask(3, jobAtWork)).toBe('waiting');
    expect(job.endTurn(2).granted).toEqual(['1']);
  });

  it('are not made to watch it by a late copy of an ask, whose reply nobody receives', () => {
    const job = new OneJob();
    job.ask(0);
    job.ask(1, jobAtWork);
    job.budget.pause(job.nowMs, {});
    expect(job.endTurn(0).granted).toEqual([]);
    expect(job.replyTo(1, jobAtWork)).not.toHaveProperty('isToWatch');
    job.budget.resume(job.nowMs);
    expect(job.granted()).toEqual(['1']);
  });

  it('watch it if it goes on with a message that the budget does not know', () => {
    const job = new OneJob();
    job.ask(1, jobAtRest);
    job.ask(2, jobAtWork);
    expect(job.endTurn(1).granted).toEqual(['2']);
    const grant = { workflowId: followUp('2', 'job'), runId: 'run-of-2', sendNumber: 1 };
    job.budget.receive(job.nowMs, { kind: 'outcome', ...grant, outcome: 'notSent', atMs: job.nowMs });
    expect(job.replyTo(2, { ...jobAtWork, sendNumber: 2 })).toMatchObject({ isToWatch: true });
  });

  it('take at most half of the places', () => {
    const capacity = { total: 10, forJob: 10 };
    const budget = new Budget(newState({ ...settings, limit: 0 }, T0), capacity);
    budget.book(T0, []);
    const kinds = (prefix: string, jobIs: NonNullable<Ask['jobIs']>) =>
      names(prefix, 6).map((name) => budget.ask(T0, askOf(name, { jobIs })).kind);
    expect(kinds('busy', 'at-work')).toEqual([...Array<string>(5).fill('waiting'), 'full']);
    expect(kinds('free', 'at-rest')).toEqual([...Array<string>(5).fill('waiting'), 'full']);
  });
});
