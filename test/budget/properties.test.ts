import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { FollowUpSignal } from '../../src/budget/budget.js';
import type { SendOutcome } from '../../src/contract/index.js';
import type { AskReply } from '../../src/protocol/index.js';
import { nameOf, TestBudget } from './support.js';

const STEP = 5_000;
const windowMs = 20 * STEP;
const leaseMs = 4 * STEP;
const settings = { limit: 4, windowMs, marginMs: STEP, reserve: 1 };

const event = fc.record({
  /** How much time passes before. */
  steps: fc.oneof(fc.constant(0), fc.nat(3), { weight: 1, arbitrary: fc.nat(30) }),
  kind: fc.oneof(
    { weight: 8, arbitrary: fc.constant('ask' as const) },
    { weight: 8, arbitrary: fc.constant('outcome' as const) },
    fc.constantFrom('askAgain', 'end', 'end', 'closed', 'pause', 'resume', 'resume', 'take'),
  ),
  /** Chooses among the follow-ups or sends that it may concern. */
  who: fc.nat(1_000),
  lane: fc.constantFrom('batch', 'interactive'),
  outcome: fc.oneof(
    { weight: 5, arbitrary: fc.constant('sent' as const) },
    fc.constantFrom('rejected', 'unknown', 'notSent', 'limited', 'credentials', 'payment'),
  ),
  /** When the message arrives, between the first moment and the last. */
  chance: fc.double({ min: 0, max: 1, noNaN: true }),
});
type Event = typeof event extends fc.Arbitrary<infer E> ? E : never;
const events = fc.array(event, { minLength: 10, maxLength: 50 });

/** A send that was granted. Without an outcome, nobody ever reports it. */
interface Send {
  name: string;
  sendNumber: number;
  grantedAtMs: number;
  overAtMs: number;
  chance: number;
  outcomeAtMs?: number;
  outcome?: SendOutcome;
  /** The signal with its grant, if it was not the reply to an ask. */
  signal: FollowUpSignal | undefined;
}

/** Follow-ups that do what random events say. */
class Play {
  readonly sends: Send[] = [];
  /** When each slot was taken for other messages. */
  readonly takenAtMs: number[] = [];
  /** All replies of the budget, in order. */
  readonly replies: unknown[] = [];
  readonly #names: string[] = [];
  readonly #keys = new Set<string>();
  readonly #numbers = new Map<string, number>();
  #chance = 0;

  constructor(readonly budget: TestBudget) {}

  run(events: readonly Event[], pass = (budget: TestBudget, ms: number) => budget.advance(ms)): this {
    for (const each of events) {
      this.#chance = each.chance;
      pass(this.budget, each.steps * STEP);
      this.#receiveSignals();
      this.#do(each);
      this.#receiveSignals();
    }
    return this;
  }

  #receiveSignals(): void {
    for (const signal of this.budget.signals()) this.#receive(nameOf(signal), signal.reply, signal);
  }

  #receive(name: string, reply?: AskReply, signal?: FollowUpSignal): void {
    this.replies.push([name, reply]);
    if (reply?.kind !== 'granted') return;
    const { sendNumber, grantedAtMs, overAtMs } = reply;
    const send = this.sends.find((each) => each.name === name && each.sendNumber === sendNumber);
    if (send) send.signal = signal;
    else this.sends.push({ name, sendNumber, grantedAtMs, overAtMs, chance: this.#chance, signal });
  }

  #ask(name: string, lane: Event['lane']): void {
    const sendNumber = this.#numbers.get(name) ?? 1;
    const job = `job-${this.#names.indexOf(name) % 12}`;
    this.#receive(name, this.budget.ask(name, { job, lane, sendNumber, leaseMs, drainMs: STEP }));
  }

  #take(key: string, count: number): void {
    const reply = this.budget.take(key, count);
    this.replies.push([key, reply]);
    const isNew = reply.taken && Date.parse(reply.takenAt) === this.budget.nowMs && !this.#keys.has(key);
    if (!isNew) return;
    this.#keys.add(key);
    this.takenAtMs.push(...Array.from({ length: count }, () => this.budget.nowMs));
  }

  #do({ kind, who, lane, outcome }: Event): void {
    const { budget } = this;
    const { nowMs } = budget;
    const open = this.sends.filter((send) => send.outcome === undefined && send.overAtMs > nowMs);
    const send = open[who % open.length];
    const name = this.#names[who % this.#names.length];
    const isOpen = open.some((each) => each.name === name);
    const close = (how: SendOutcome) => Object.assign(send ?? {}, { outcome: how, outcomeAtMs: nowMs });
    if (kind === 'ask') this.#ask(this.#names[this.#names.push(`f${this.#names.length}`) - 1]!, lane);
    else if (kind === 'pause') budget.pause({ untilMs: nowMs + (who % 60) * STEP });
    else if (kind === 'resume') budget.resume();
    else if (kind === 'take') this.#take(`k${who % 9}`, 1 + (who % settings.limit));
    else if (kind === 'askAgain' && name !== undefined) this.#ask(name, lane);
    else if (kind === 'end' && name !== undefined && !isOpen) budget.end(name);
    else if (kind === 'outcome' && send) {
      budget.report(send.name, outcome, { sendNumber: send.sendNumber });
      close(outcome);
      if (outcome !== 'sent') this.#numbers.set(send.name, send.sendNumber + 1);
    } else if (kind === 'closed' && send?.signal) {
      budget.noteClosed([send.signal]);
      close('notSent');
    }
  }
}

/** The most entries of a log that any rolling window holds. */
function mostInWindow(log: readonly number[], windowMs: number): number {
  const inWindow = (endMs: number) => log.filter((atMs) => atMs > endMs - windowMs && atMs <= endMs).length;
  return Math.max(0, ...log.map(inWindow));
}

describe('the budget, whatever happens', () => {
  it('grants so few sends that no window of the service has more than the limit', () => {
    const check = fc.property(events, (all) => {
      const { sends, takenAtMs } = new Play(new TestBudget(settings)).run(all);
      const made = sends.filter(({ outcome }) => outcome !== 'notSent');
      const log = made.map(({ grantedAtMs, overAtMs, outcomeAtMs, outcome, chance }) => {
        const lastMs = outcomeAtMs === undefined || outcome === 'unknown' ? overAtMs : outcomeAtMs;
        return grantedAtMs + chance * (lastMs - grantedAtMs);
      });
      expect(mostInWindow([...log, ...takenAtMs], windowMs)).toBeLessThanOrEqual(settings.limit);
    });
    fc.assert(check, { numRuns: 500 });
  });

  it('replies the same if it is made anew from the JSON of its state before each call', () => {
    const check = fc.property(events, (all) => {
      const plain = new Play(new TestBudget(settings)).run(all);
      const rebuilt = new Play(new TestBudget({ ...settings, isRebuilt: true })).run(all);
      expect(rebuilt.replies).toEqual(plain.replies);
      expect(rebuilt.budget.state).toEqual(plain.budget.state);
    });
    fc.assert(check, { numRuns: 60 });
  });

  it('replies the same whether it is called at its next changes alone or also in between', () => {
    /** Passes the time at each next change, and at all multiples of `extraMs` in between. */
    const passAt = (extraMs: number) => (budget: TestBudget, ms: number) => {
      const startMs = budget.nowMs;
      const nextMs = () =>
        Math.min(
          budget.budget.nextChangeMs(budget.nowMs) ?? Infinity,
          startMs + (Math.floor((budget.nowMs - startMs) / extraMs) + 1) * extraMs,
        );
      for (let next = nextMs(); next <= startMs + ms; next = nextMs()) budget.advance(next - budget.nowMs);
      budget.nowMs = startMs + ms;
    };
    const check = fc.property(events, (all) => {
      const often = new Play(new TestBudget(settings)).run(all, passAt(1_500));
      expect(new Play(new TestBudget(settings)).run(all, passAt(Infinity)).replies).toEqual(often.replies);
    });
    fc.assert(check, { numRuns: 100 });
  });
});
