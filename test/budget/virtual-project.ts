import { Budget } from '../../src/budget/budget.js';
import { newState } from '../../src/budget/state.js';
import type { Lane, SendOutcome } from '../../src/contract/index.js';
import { refusalOf } from '../../src/protocol/index.js';
import { createRandom } from '../../src/simulator/random.js';
import { HOUR, MINUTE, SECOND, T0 } from './support.js';

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
  nowMs = T0;
  readonly budget: Budget;
  /** What the service received, in order. */
  readonly sends: { name: string; atMs: number; outcome: SendOutcome }[] = [];
  readonly startedAtMs = new Map<string, number>();
  readonly #events: { atMs: number; run: () => void }[] = [];
  readonly #lanes = new Map<string, Lane>();
  readonly #between: (min: number, max: number) => number;
  #turnEndsMs: number[] = [];

  constructor(private readonly options: VirtualProjectOptions) {
    const { seed, limit = 100 } = options;
    this.budget = new Budget(newState({ limit, windowMs: HOUR, reserve: 0, marginMs: 2 * SECOND }, T0));
    this.budget.book(T0, []);
    this.#between = createRandom(seed).between;
  }

  /** Starts a follow-up after a time, from now. */
  start(name: string, afterMs = 0, lane: Lane = 'interactive'): void {
    this.#after(afterMs, () => {
      this.startedAtMs.set(name, this.nowMs);
      this.#lanes.set(name, lane);
      this.#ask(name, 1);
    });
  }

  /** Lets time pass. */
  run(ms: number): this {
    const endMs = this.nowMs + ms;
    for (;;) {
      for (const { workflowId, reply } of this.budget.flushSignals()) {
        if (reply?.kind === 'granted') this.#send(workflowId.split('/')[2]!, reply.sendNumber);
      }
      const changeMs = this.budget.nextChangeMs(this.nowMs) ?? Infinity;
      const next = this.#events.reduce((a, b) => (b.atMs < a.atMs ? b : a), { atMs: Infinity, run: () => undefined });
      this.nowMs = Math.min(changeMs, next.atMs, endMs);
      if (this.nowMs === endMs) return this;
      if (next.atMs <= changeMs) {
        this.#events.splice(this.#events.indexOf(next), 1);
        next.run();
      } else this.budget.advance(this.nowMs);
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

  #ask(name: string, sendNumber: number): void {
    const reply = this.budget.ask(this.nowMs, {
      ...{ workflowId: idOf(name), runId: 'run', sendNumber, lane: this.#lanes.get(name) ?? 'interactive' },
      ...{ messageTag: 'tag', mayHaveSent: false, startedAtMs: this.startedAtMs.get(name) ?? T0 },
      ...{ leaseMs: MINUTE, drainMs: 2 * MINUTE, maxLimit: 1_000 },
    });
    if (reply.kind === 'granted') this.#send(name, sendNumber);
  }

  #send(name: string, sendNumber: number): void {
    const of = { workflowId: idOf(name), runId: 'run' };
    this.#after(this.#between(50, 200), () => {
      this.#turnEndsMs = this.#turnEndsMs.filter((turnEndMs) => turnEndMs > this.nowMs);
      const response = this.options.respond(name, this.nowMs, this.#turnEndsMs);
      const { outcome } = response;
      this.sends.push({ name, atMs: this.nowMs, outcome });
      if (outcome === 'sent') this.#beginTurn(name);
      this.#after(this.#between(100, 400), () => {
        this.budget.receive(this.nowMs, { kind: 'outcome', ...of, sendNumber, atMs: this.nowMs, ...response });
        if (refusalOf(outcome)) this.#ask(name, sendNumber + 1);
        else if (outcome !== 'sent') this.budget.receive(this.nowMs, { kind: 'end', ...of });
      });
    });
  }

  /** A turn takes 7 to 13 minutes, and the follow-up sees its end some seconds later. */
  #beginTurn(name: string): void {
    const turnMs = this.#between(7 * MINUTE, 13 * MINUTE);
    this.#turnEndsMs.push(this.nowMs + turnMs);
    const lastTurn = { status: 'completed', prLink: null, archivedAt: null };
    this.#after(turnMs + this.#between(5 * SECOND, MINUTE), () => {
      this.budget.receive(this.nowMs, { kind: 'end', workflowId: idOf(name), runId: 'run', lastTurn });
    });
    this.options.onAccepted?.(name, this.nowMs);
  }
}

const idOf = (name: string): string => `follow-up/project/${name}/key`;
