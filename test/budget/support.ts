import { Budget, type ListedSend, type Message, type Places, type SettingsChange } from '../../src/budget/budget.js';
import { newState } from '../../src/budget/state.js';
import type { Answer, Ask, BudgetSettings, End, Settlement } from '../../src/contract/protocol.js';
import type { SendOutcome, TakeAnswer } from '../../src/contract/budget.js';

export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const T0 = Date.UTC(2026, 0, 1);
export const LEASE = 40 * SECOND;
/** No byte of a send arrives later than this after its grant. */
export const OVER = LEASE + 20 * SECOND;
export const MARGIN = 2 * SECOND;
export const HELD = HOUR + MARGIN;
/** The default of `settleTime`: how long a job may still show the turn before. */
export const SETTLE = 2 * MINUTE;
export const lastTurn = { status: 'completed', prLink: 'link', archivedAt: null };

/** Id of a follow-up to a job, which is one of its own if none is named. */
export const followUp = (name: string, job = name): string => `follow-up/project/${job}/${name}`;

/** Names with numbers: `a0`, `a1`, … */
export const names = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`);

export const listed = (all: readonly string[], isRunning = false): ListedSend[] =>
  all.map((name) => ({ workflowId: followUp(name), isRunning, isWaiting: isRunning }));

type AskChange = Partial<Ask> & { job?: string };

export function askOf(name: string, { job, ...change }: AskChange = {}): Ask {
  return {
    ...{ workflowId: followUp(name, job), runId: `run-of-${name}`, sendNumber: 1, lane: 'interactive' },
    ...{ messageTag: `message-of-${name}`, mayHaveSent: false, startedAtMs: T0 },
    ...{ leaseMs: LEASE, drainMs: OVER - LEASE, maxLimit: 1_000, ...change },
  };
}

/** A reset run that asks. */
export const resetRun = { runId: 'new', mayHaveSent: true };

interface DeskOptions extends Partial<BudgetSettings> {
  places?: Places;
  /** The budget has not yet found out what was sent before it. */
  counts?: boolean;
  /** Before each call, the budget is made anew from the JSON of its state. */
  isRebuilt?: boolean;
}

/** A budget together with the time, and with the messages that it sent. */
export class Desk {
  nowMs = T0;
  budget: Budget;
  #messages: Message[] = [];
  readonly #asked = new Map<string, Ask>();

  constructor(private readonly options: DeskOptions = {}) {
    const { places, counts, isRebuilt: _, ...settings } = options;
    const defaults = { limit: 10, windowMs: HOUR, reserve: 0, marginMs: MARGIN };
    this.budget = new Budget(newState({ ...defaults, ...settings }, T0), places);
    if (!counts) this.book([]);
  }

  get state() {
    return this.budget.state;
  }

  /** Calls the budget, and takes what it has to say. */
  call<T>(event: (budget: Budget, nowMs: number) => T): T {
    if (this.options.isRebuilt) this.rebuild();
    const answer = event(this.budget, this.nowMs);
    this.#messages.push(...this.budget.takeMessages());
    return answer;
  }

  rebuild(): void {
    this.budget = new Budget(JSON.parse(JSON.stringify(this.state)), this.options.places);
  }

  /** Asks as before, but for what is changed. */
  ask(name: string, change: AskChange = {}): Answer {
    const ask = { ...(this.#asked.get(name) ?? askOf(name, change)), ...change };
    this.#asked.set(name, ask);
    return this.call((budget, nowMs) => budget.ask(nowMs, ask));
  }

  askAll(all: readonly string[], change: AskChange = {}): Answer['kind'][] {
    return all.map((name) => this.ask(name, change).kind);
  }

  settle(name: string, outcome: SendOutcome = 'sent', change: Partial<Settlement> = {}): void {
    const { workflowId, runId, sendNumber } = this.#asked.get(name) ?? askOf(name);
    const settlement = { workflowId, runId, sendNumber, outcome, atMs: this.nowMs, ...change };
    this.call((budget, nowMs) => budget.hear(nowMs, { kind: 'settle', ...settlement }));
  }

  end(name: string, change: Partial<End> = {}): void {
    const { workflowId, runId } = this.#asked.get(name) ?? askOf(name);
    this.call((budget, nowMs) => budget.hear(nowMs, { kind: 'end', workflowId, runId, ...change }));
  }

  /** Asks, and says at once that the message was sent. The follow-up keeps its turn. */
  send(name: string, change: AskChange = {}): void {
    const { kind } = this.ask(name, change);
    if (kind !== 'granted') throw new Error(`${name} is not granted, but ${kind}`);
    this.settle(name);
  }

  /** Messages do not find their follow-ups. */
  miss(messages: readonly Message[]): void {
    for (const message of messages) this.call((budget, nowMs) => budget.missed(nowMs, message));
  }

  book(sends: readonly ListedSend[], others = 0): void {
    this.call((budget, nowMs) => budget.book(nowMs, sends, { others }));
    this.wait(0);
  }

  setLimit(change: SettingsChange): void {
    this.call((budget, nowMs) => budget.setLimit(nowMs, change));
  }

  pause(pause: { untilMs?: number; note?: string } = {}): void {
    this.call((budget, nowMs) => budget.pause(nowMs, pause));
  }

  take(key: string, count: number): TakeAnswer {
    return this.call((budget, nowMs) => budget.take(nowMs, { key, count }));
  }

  resume(): void {
    this.call((budget, nowMs) => budget.resume(nowMs));
  }

  wait(ms: number): void {
    this.nowMs += ms;
    this.call((budget, nowMs) => budget.advance(nowMs));
  }

  /** Takes the messages of the budget. */
  told(): Message[] {
    return this.#messages.splice(0);
  }

  /** Takes the messages, and names those that were granted a send, in order. */
  granted(): string[] {
    const granted = this.told().filter(({ answer }) => answer?.kind === 'granted');
    return granted.map(({ workflowId }) => workflowId.slice(workflowId.lastIndexOf('/') + 1));
  }

  /** Waits for the next grants, but not for more than a day. Says after how long they come, and to whom. */
  nextGrants(): [afterMs: number, granted: string[]] {
    const sinceMs = this.nowMs;
    for (;;) {
      const granted = this.granted();
      const nextMs = this.budget.nextChangeMs(this.nowMs);
      const isOver = granted.length > 0 || nextMs === undefined || nextMs > sinceMs + 24 * HOUR;
      if (isOver) return [this.nowMs - sinceMs, granted];
      this.wait(nextMs - this.nowMs);
    }
  }
}

/** A job `x` whose turn `a` has after its send, and for which `b` waits. */
export function busyJob(): Desk {
  const desk = new Desk();
  desk.send('a', { job: 'x' });
  desk.ask('b', { job: 'x' });
  return desk;
}

/** The most entries of a log that any rolling window holds. */
export function mostInWindow(log: readonly number[], windowMs: number): number {
  const inWindow = (endMs: number) => log.filter((atMs) => atMs > endMs - windowMs && atMs <= endMs).length;
  return Math.max(0, ...log.map(inWindow));
}
