import type { Lane, SendOutcome } from '../../src/contract/index.js';
import { type Ask, refusalOf } from '../../src/protocol/index.js';
import { createRandom } from '../../src/simulator/random.js';
import { MINUTE, SECOND } from '../support/times.js';
import { nameOf, TestBudget } from './support.js';

/** What the service answers to a message. */
export interface Response {
  outcome: SendOutcome;
  statusCode?: number;
  retryAfterMs?: number;
}

export interface VirtualProjectOptions {
  /** Of randomness: latencies, and lengths of turns. */
  seed: number;
  /** Messages an hour that the budget allows. @default 100 */
  limit?: number;
  /** @param turnEndsMs when the turns of the jobs at work will end */
  respond: (name: string, nowMs: number, turnEndsMs: readonly number[]) => Response;
  onAccepted?: (name: string, nowMs: number) => void;
}

/** A project in virtual time: the shipped budget, follow-ups that send by its rules, each to its own job, and a service. */
export class VirtualProject {
  readonly budget: TestBudget;
  /** What the service received, in order. */
  readonly sends: { name: string; atMs: number; outcome: SendOutcome }[] = [];
  readonly startedAtMs = new Map<string, number>();
  readonly #events: { atMs: number; run: () => void }[] = [];
  readonly #between: (min: number, max: number) => number;
  #turnEndsMs: number[] = [];

  constructor(private readonly options: VirtualProjectOptions) {
    const { seed, limit = 100 } = options;
    this.budget = new TestBudget({ limit });
    this.#between = createRandom(seed).between;
  }

  get nowMs(): number {
    return this.budget.nowMs;
  }

  /** Starts a follow-up after a time, from now. */
  start(name: string, afterMs = 0, lane: Lane = 'interactive'): void {
    this.#after(afterMs, () => {
      this.startedAtMs.set(name, this.nowMs);
      const times = { startedAtMs: this.nowMs, leaseMs: MINUTE, drainMs: 2 * MINUTE };
      this.#ask(name, { sendNumber: 1, lane, ...times });
    });
  }

  /** Lets time pass. */
  run(ms: number): this {
    const endMs = this.nowMs + ms;
    for (;;) {
      for (const signal of this.budget.signals()) {
        if (signal.reply?.kind === 'granted') this.#send(nameOf(signal), signal.reply.sendNumber);
      }
      const changeMs = this.nowMs + (this.budget.nextChangeInMs() ?? Infinity);
      const next = this.#events.reduce((a, b) => (b.atMs < a.atMs ? b : a), { atMs: Infinity, run: () => undefined });
      this.budget.nowMs = Math.min(changeMs, next.atMs, endMs);
      if (this.nowMs === endMs) return this;
      if (next.atMs <= changeMs) {
        this.#events.splice(this.#events.indexOf(next), 1);
        next.run();
      } else this.budget.advance(0);
    }
  }

  /** How long each of these follow-ups waited until its message was accepted, sorted. Infinite if it was not. */
  waitsMs(isOne: (name: string) => boolean): number[] {
    const acceptedAtMs = new Map(this.accepted().map(({ name, atMs }) => [name, atMs]));
    const names = [...this.startedAtMs.keys()].filter(isOne);
    return names
      .map((name) => (acceptedAtMs.get(name) ?? Infinity) - (this.startedAtMs.get(name) ?? 0))
      .sort((a, b) => a - b);
  }

  accepted() {
    return this.sends.filter(({ outcome }) => outcome === 'sent');
  }

  #after(ms: number, run: () => void): void {
    this.#events.push({ atMs: this.nowMs + ms, run });
  }

  #ask(name: string, change: Partial<Ask> & { sendNumber: number }): void {
    if (this.budget.ask(name, change).kind === 'granted') this.#send(name, change.sendNumber);
  }

  #send(name: string, sendNumber: number): void {
    this.#after(this.#between(50, 200), () => {
      this.#turnEndsMs = this.#turnEndsMs.filter((turnEndMs) => turnEndMs > this.nowMs);
      const response = this.options.respond(name, this.nowMs, this.#turnEndsMs);
      const { outcome } = response;
      this.sends.push({ name, atMs: this.nowMs, outcome });
      if (outcome === 'sent') this.#beginTurn(name);
      this.#after(this.#between(100, 400), () => {
        this.budget.report(name, outcome, response);
        if (refusalOf(outcome)) this.#ask(name, { sendNumber: sendNumber + 1 });
        else if (outcome !== 'sent') this.budget.end(name);
      });
    });
  }

  /** A turn takes 7 to 13 minutes, and the follow-up sees its end some seconds later. */
  #beginTurn(name: string): void {
    const turnMs = this.#between(7 * MINUTE, 13 * MINUTE);
    this.#turnEndsMs.push(this.nowMs + turnMs);
    const jobAtEnd = { status: 'completed', prLink: null, archivedAt: null };
    this.#after(turnMs + this.#between(5 * SECOND, MINUTE), () => {
      this.budget.end(name, { jobAtEnd });
    });
    this.options.onAccepted?.(name, this.nowMs);
  }
}
