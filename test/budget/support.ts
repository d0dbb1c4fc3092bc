import { Budget, type FollowUpSignal, type SettingsChange } from '../../src/budget/budget.js';
import type { ListedFollowUp } from '../../src/budget/counting.js';
import type { LineCapacity } from '../../src/budget/line.js';
import { slotEnds } from '../../src/budget/slots.js';
import { newState } from '../../src/budget/state.js';
import { budgetStatus } from '../../src/budget/status.js';
import { defined } from '../../src/common/index.js';
import type { BudgetStatus, SendOutcome, TakeReply } from '../../src/contract/index.js';
import type { Ask, AskReply, BudgetSettings, EndReport, OutcomeReport } from '../../src/protocol/index.js';
import { HOUR, MINUTE, SECOND } from '../support/times.js';

/** When each test begins. */
export const T0 = Date.UTC(2026, 0, 1);
export const LEASE = 40 * SECOND;
/** No byte of a send arrives later than this after its grant. */
export const OVER = LEASE + 20 * SECOND;
export const MARGIN = 2 * SECOND;
/** How long a slot stays in use after its send: a window and the margin. */
export const HELD = HOUR + MARGIN;
/** The default of `settleTime`: how long a job may still show the turn before. */
export const SETTLE = 2 * MINUTE;
/** How a job looked at the end of a turn. */
export const jobAtEnd = { status: 'completed', prLink: 'link', archivedAt: null };

/** Id of a follow-up to a job, which is one of its own if none is named. */
export const followUp = (name: string, job = name): string => `follow-up/project/${job}/${name}`;

/** Names with numbers: `a0`, `a1`, … */
export const names = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`);

/** The name in the workflow id of a follow-up. */
export const nameOf = ({ workflowId }: { workflowId: string }) => workflowId.slice(workflowId.lastIndexOf('/') + 1);

/** A follow-up in the list of those that may have sent, which is closed by now. */
export const closed = (name: string, job = name): ListedFollowUp => ({
  workflowId: followUp(name, job),
  isRunning: false,
});
/** A follow-up in the list of those that may have sent, which still runs. */
export const running = (name: string, job = name): ListedFollowUp => ({
  workflowId: followUp(name, job),
  isRunning: true,
});

/** What an ask changes in the usual one. `job`: the name of the job, if it is not the follow-up's own. */
type AskChange = Partial<Ask> & { job?: string };

/** The first ask of a follow-up, whose run began with the budget. */
export function askOf(name: string, { job, ...change }: AskChange = {}): Ask {
  return {
    ...{ workflowId: followUp(name, job), runId: `run-of-${name}`, sendNumber: 1, lane: 'interactive' },
    ...{ messageTag: `message-of-${name}`, mayHaveSent: false, startedAtMs: T0 },
    ...{ leaseMs: LEASE, drainMs: OVER - LEASE, maxLimit: 1_000, ...change },
  };
}

/** The ask of a run that replaces another one: somebody has reset the follow-up. */
export const afterReset = { runId: 'new-run', mayHaveSent: true };
/** The run began after the budget: the budget remembers all that its follow-up was granted. */
export const startedLater = { startedAtMs: T0 + 1 };

export interface TestBudgetOptions extends Partial<BudgetSettings> {
  capacity?: LineCapacity;
  /** Whether the budget still counts what was sent before it. @default false */
  isCounting?: boolean;
  /** Whether the budget is made anew from the JSON of its state before each call. @default false */
  isRebuilt?: boolean;
}

/**
 * A budget with a clock, whose follow-ups have names. By default it grants 10 sends an hour, without a reserve, and has
 * counted that nothing was sent before.
 */
export class TestBudget {
  nowMs = T0;
  budget: Budget;
  #signals: FollowUpSignal[] = [];
  readonly #asked = new Map<string, Ask>();

  constructor(private readonly options: TestBudgetOptions = {}) {
    const { capacity, isCounting, isRebuilt: _, ...settings } = options;
    const defaults = { limit: 10, windowMs: HOUR, reserve: 0, marginMs: MARGIN };
    this.budget = new Budget(newState({ ...defaults, ...settings }, T0), capacity);
    if (!isCounting) this.book([]);
  }

  get state() {
    return this.budget.state;
  }

  /** Calls the budget, and collects its signals. */
  call<T>(event: (budget: Budget, nowMs: number) => T): T {
    if (this.options.isRebuilt) this.budget = new Budget(JSON.parse(JSON.stringify(this.state)), this.options.capacity);
    const reply = event(this.budget, this.nowMs);
    this.#signals.push(...this.budget.flushSignals());
    return reply;
  }

  /** Lets time pass. */
  advance(ms: number): void {
    this.nowMs += ms;
    this.call((budget, nowMs) => budget.advance(nowMs));
  }

  /** Asks as the follow-up asked before, but for what is changed. */
  ask(name: string, { job, ...change }: AskChange = {}): AskReply {
    const ask = { ...this.#lastAskOf(name, job), ...change };
    this.#asked.set(name, ask);
    return this.call((budget, nowMs) => budget.ask(nowMs, ask));
  }

  /** Each of these follow-ups asks. Returns the kinds of the replies. */
  askAll(all: readonly string[], change: AskChange = {}): AskReply['kind'][] {
    return all.map((name) => this.ask(name, change).kind);
  }

  /** Reports the outcome of the send that the follow-up asked for last. `job`: if it has never asked. */
  report(
    name: string,
    outcome: SendOutcome = 'sent',
    { job, ...change }: Partial<OutcomeReport> & { job?: string } = {},
  ): void {
    const { workflowId, runId, sendNumber } = this.#lastAskOf(name, job);
    const report = { workflowId, runId, sendNumber, outcome, atMs: this.nowMs, ...change };
    this.call((budget, nowMs) => budget.receive(nowMs, { kind: 'outcome', ...report }));
  }

  /** Asks, and reports at once that the message was sent. The follow-up keeps its turn. */
  send(name: string, change: AskChange = {}): void {
    const { kind } = this.ask(name, change);
    if (kind !== 'granted') throw new Error(`${name} is not granted, but ${kind}`);
    this.report(name);
  }

  /** The run of the follow-up that asked last ends. `job`: if it has never asked. */
  end(name: string, { job, ...change }: Partial<EndReport> & { job?: string } = {}): void {
    const { workflowId, runId } = this.#lastAskOf(name, job);
    this.call((budget, nowMs) => budget.receive(nowMs, { kind: 'end', workflowId, runId, ...change }));
  }

  /** These signals do not find their follow-ups. */
  noteClosed(signals: readonly FollowUpSignal[]): void {
    for (const signal of signals) this.call((budget, nowMs) => budget.noteClosed(nowMs, signal));
  }

  /** The count ends: it found these sends, and `others` of which nothing is known. */
  book(sends: readonly ListedFollowUp[], more: Parameters<Budget['book']>[2] = {}): void {
    this.call((budget, nowMs) => budget.book(nowMs, sends, more));
    this.advance(0);
  }

  take(key: string, count: number): TakeReply {
    return this.call((budget, nowMs) => budget.take(nowMs, { key, count }));
  }

  pause(pause: { untilMs?: number; note?: string } = {}): void {
    this.call((budget, nowMs) => budget.pause(nowMs, pause));
  }

  resume(): void {
    this.call((budget, nowMs) => budget.resume(nowMs));
  }

  setLimit(change: SettingsChange): void {
    this.call((budget, nowMs) => budget.setLimit(nowMs, change));
  }

  /** Takes the signals of the budget since the last call. */
  signals(): FollowUpSignal[] {
    return this.#signals.splice(0);
  }

  /** Takes the signals, and names the follow-ups that were granted a send and those that are to ask again, in order. */
  signalled(): { granted: string[]; woken: string[] } {
    const signals = this.signals();
    return {
      granted: signals.filter(({ reply }) => reply?.kind === 'granted').map(nameOf),
      woken: signals.filter(({ reply }) => !reply).map(nameOf),
    };
  }

  /** Takes the signals, and names the follow-ups that were granted a send. */
  granted(): string[] {
    return this.signalled().granted;
  }

  /** Takes the signals, and names the follow-ups that are to ask again. */
  woken(): string[] {
    return this.signalled().woken;
  }

  /** Lets time pass until the next grants, at most a day. Returns after how long they come, and to whom. */
  nextGrants(): [afterMs: number, granted: string[]] {
    const sinceMs = this.nowMs;
    for (;;) {
      const granted = this.granted();
      const nextMs = this.budget.nextChangeMs(this.nowMs);
      const isOver = granted.length > 0 || nextMs === undefined || nextMs > sinceMs + 24 * HOUR;
      if (isOver) return [this.nowMs - sinceMs, granted];
      this.advance(nextMs - this.nowMs);
    }
  }

  /** After how long something changes by itself. */
  nextChangeInMs(): number | undefined {
    const nextMs = this.budget.nextChangeMs(this.nowMs);
    return nextMs === undefined ? undefined : nextMs - this.nowMs;
  }

  /** When each slot that is in use is free again, after the start of the test. */
  slotEndsMs(): number[] {
    return slotEnds(this.state).map((endMs) => endMs - T0);
  }

  /** How many slots are in use. */
  usedSlots(): number {
    return slotEnds(this.state).length;
  }

  /** Who stands in line, the first first. */
  line(): string[] {
    return this.state.waiters.map(nameOf);
  }

  /** What people see of the budget. */
  status(): BudgetStatus {
    return budgetStatus('project', this.state, this.nowMs);
  }

  /** The last ask of a follow-up, or its first one if it has never asked. */
  #lastAskOf(name: string, job?: string): Ask {
    return this.#asked.get(name) ?? askOf(name, defined({ job }));
  }
}
