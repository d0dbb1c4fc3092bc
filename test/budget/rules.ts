import { expect, it } from 'vitest';
import { Budget, type FollowUpSignal } from '../../src/budget/budget.js';
import type { ListedSend } from '../../src/budget/counting.js';
import type { LineCapacity } from '../../src/budget/line.js';
import { limitOf, slotEnds } from '../../src/budget/slots.js';
import { newState } from '../../src/budget/state.js';
import type { SendOutcome, TakeReply } from '../../src/contract/index.js';
import type { Ask, AskReply, BudgetSettings, EndReport, OutcomeReport } from '../../src/protocol/index.js';

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
const SETTLE = 2 * MINUTE;
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

export interface DeskOptions extends Partial<BudgetSettings> {
  capacity?: LineCapacity;
  /** The budget has not yet found out what was sent before it. */
  counts?: boolean;
  /** Before each call, the budget is made anew from the JSON of its state. */
  isRebuilt?: boolean;
}

/** A budget together with the time, and with the messages that it sent. */
export class Desk {
  nowMs = T0;
  budget: Budget;
  /** Messages that are on their way until they find nobody. */
  kept: FollowUpSignal[] = [];
  #signals: FollowUpSignal[] = [];
  readonly #asked = new Map<string, Ask>();

  constructor(private readonly options: DeskOptions = {}) {
    const { capacity, counts, isRebuilt: _, ...settings } = options;
    const defaults = { limit: 10, windowMs: HOUR, reserve: 0, marginMs: MARGIN };
    this.budget = new Budget(newState({ ...defaults, ...settings }, T0), capacity);
    if (!counts) this.book([]);
  }

  get state() {
    return this.budget.state;
  }

  /** Calls the budget, and takes what it has to say. */
  call<T>(event: (budget: Budget, nowMs: number) => T): T {
    if (this.options.isRebuilt) this.rebuild();
    const reply = event(this.budget, this.nowMs);
    this.#signals.push(...this.budget.flushSignals());
    return reply;
  }

  rebuild(): void {
    this.budget = new Budget(JSON.parse(JSON.stringify(this.state)), this.options.capacity);
  }

  /** The workflow id of a follow-up, which has asked before, or has a job of its own. */
  idOf(name: string): string {
    return (this.#asked.get(name) ?? askOf(name)).workflowId;
  }

  /** Asks as before, but for what is changed. */
  ask(name: string, change: AskChange = {}): AskReply {
    const ask = { ...(this.#asked.get(name) ?? askOf(name, change)), ...change };
    this.#asked.set(name, ask);
    return this.call((budget, nowMs) => budget.ask(nowMs, ask));
  }

  report(name: string, outcome: SendOutcome = 'sent', change: Partial<OutcomeReport> = {}): void {
    const { workflowId, runId, sendNumber } = this.#asked.get(name) ?? askOf(name);
    const report = { workflowId, runId, sendNumber, outcome, atMs: this.nowMs, ...change };
    this.call((budget, nowMs) => budget.receive(nowMs, { kind: 'outcome', ...report }));
  }

  end(name: string, change: Partial<EndReport> = {}): void {
    const { workflowId, runId } = this.#asked.get(name) ?? askOf(name);
    this.call((budget, nowMs) => budget.receive(nowMs, { kind: 'end', workflowId, runId, ...change }));
  }

  /** Asks, and says at once that the message was sent. The follow-up keeps its turn. */
  send(name: string, change: AskChange = {}): void {
    const { kind } = this.ask(name, change);
    if (kind !== 'granted') throw new Error(`${name} is not granted, but ${kind}`);
    this.report(name);
  }

  /** Messages do not find their follow-ups. */
  miss(signals: readonly FollowUpSignal[]): void {
    for (const signal of signals) this.call((budget, nowMs) => budget.noteClosed(nowMs, signal));
  }

  book(sends: readonly ListedSend[], others = 0): void {
    this.call((budget, nowMs) => budget.book(nowMs, sends, { others }));
    this.wait(0);
  }

  pause(pause: { untilMs?: number; note?: string } = {}): void {
    this.call((budget, nowMs) => budget.pause(nowMs, pause));
  }

  take(key: string, count: number): TakeReply {
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
  signals(): FollowUpSignal[] {
    return this.#signals.splice(0);
  }

  /** Takes the messages, and names those that were granted a send, in order. */
  granted(): string[] {
    return this.signals().flatMap((signal) => (signal.reply?.kind === 'granted' ? nameOf(signal) : []));
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

  /**
   * Carries a script out: steps with commas between them. What is behind an arrow is what the step returns: names, and
   * times. A name may say its job, `a@x`, and stand for several, `a*3`.
   */
  play(script: string): this {
    for (const step of script.split(',').map((text) => text.trim())) {
      const [action = '', result = ''] = step.split('->').map((text) => text.trim());
      const [verb = '', ...words] = action.split(/\s+/);
      const run = verbs[verb];
      if (!run) throw new Error(`no such step: ${step}`);
      const expected = result.split(/\s+/).filter((word) => word !== '');
      const returned = run(this, words, expected);
      if (returned === undefined) continue;
      const actual = [returned].flat();
      const wanted = flat(expected).map((word, index) => (typeof actual[index] === 'number' ? msOf(word) : word));
      expect(actual, step).toEqual(wanted);
    }
    return this;
  }
}

const nameOf = ({ workflowId }: FollowUpSignal) => workflowId.slice(workflowId.lastIndexOf('/') + 1);

const units: Record<string, number> = {
  ...{ ms: 1, s: SECOND, m: MINUTE, h: HOUR, d: 24 * HOUR },
  ...{ lease: LEASE, over: OVER, margin: MARGIN, held: HELD, settle: SETTLE },
};
/** `90s`, or sums such as `over+held-300ms`. */
export function msOf(text: string): number {
  const parts = text.match(/[+-]?(\d+(\.\d+)?)?[a-z]*/g)?.filter((part) => part !== '') ?? [];
  return parts.reduce((sum, part) => {
    const [, sign, count = '1', unit = ''] = /^([+-]?)(\d+(?:\.\d+)?)?([a-z]*)$/.exec(part) ?? [];
    return sum + (sign === '-' ? -1 : 1) * Number(count) * (unit === '' ? 1 : (units[unit] ?? Number.NaN));
  }, 0);
}

/** What words such as `number=2` and `reset` change in an ask, an outcome report or an end. Times count from now. */
function changeOf(words: readonly string[], nowMs: number): object {
  const changes = words.map((word) => {
    const [name = '', value = ''] = word.split('=');
    const at = nowMs + msOf(value);
    const change: Record<string, object> = {
      ...{ run: { runId: value }, number: { sendNumber: Number(value) }, lane: { lane: value } },
      ...{ tag: { messageTag: value }, max: { maxLimit: Number(value) }, refusal: { refusal: value } },
      ...{ lease: { leaseMs: msOf(value) }, drain: { drainMs: msOf(value) }, retry: { retryAfterMs: msOf(value) } },
      ...{ at: { atMs: at }, until: { turnUntilMs: at }, last: { lastTurn } },
      // A reset run, and one that began within the memory of the budget.
      ...{ reset: { runId: 'new', mayHaveSent: true }, later: { startedAtMs: T0 + 1 } },
    };
    if (!change[name]) throw new Error(`no such word: ${word}`);
    return change[name];
  });
  return Object.assign({}, ...changes) as object;
}

/** `waiting job-busy position=2`: the kind, the reason, and fields, of which `none` is missing. Times count from T0. */
function expectReply(reply: AskReply, [kind, ...words]: readonly string[]): void {
  if (kind === undefined) return;
  const fields = words.map((word) => {
    const [name = '', value] = word.split('=');
    if (name === 'last') return ['lastTurn', lastTurn];
    if (value === undefined) return ['reason', name];
    if (/Ms$/.test(name) && value !== 'none') return [name, (name.endsWith('AtMs') ? T0 : 0) + msOf(value)];
    return [name, /^(true|false|null|-?\d+)$/.test(value) ? JSON.parse(value) : value];
  });
  const present = fields.filter(([, value]) => value !== 'none');
  expect(reply, words.join(' ')).toMatchObject({ kind, ...Object.fromEntries(present) });
  for (const [name] of fields.filter(([, value]) => value === 'none')) expect(reply).not.toHaveProperty(String(name));
}

const all = (word: string): [name: string, job: string | undefined][] => {
  const [, prefix = '', count, job] = /^([^@*]+)(?:\*(\d+))?(?:@(.+))?$/.exec(word) ?? [];
  return (count === undefined ? [prefix] : names(prefix, Number(count))).map((name) => [name, job]);
};
const flat = (words: readonly string[]) => words.flatMap((word) => all(word).map(([name]) => name));
/** Calls `run` for each follow-up that a word names, with what the other words change, and the job that its name says. */
function forAll(desk: Desk, who = '', words: readonly string[], run: (name: string, change: object) => unknown): void {
  for (const [name, job] of all(who)) {
    const ofJob = job !== undefined && { job, workflowId: followUp(name, job) };
    run(name, { ...ofJob, ...changeOf(words, desk.nowMs) });
  }
}

/** Does a step, and returns what is asserted. */
type Verb = (
  desk: Desk,
  words: string[],
  expected: string[],
) => string | number | (string | number)[] | undefined | void;
const verbs: Record<string, Verb> = {
  ask: (desk, [who, ...words], expected) =>
    forAll(desk, who, words, (name, change) => expectReply(desk.ask(name, change), expected)),
  send: (desk, [who]) => forAll(desk, who, [], (name, change) => desk.send(name, change)),
  report: (desk, [who, outcome = 'sent', ...words]) =>
    forAll(desk, who, words, (name, change) => desk.report(name, outcome as SendOutcome, change)),
  end: (desk, [who, ...words]) => forAll(desk, who, words, (name, change) => desk.end(name, change)),
  take: (desk, [key = '', count]) => String(desk.take(key, Number(count)).taken),
  /** Time passes. `clock` sets it without a call of the budget. */
  wait: (desk, [time = '']) => desk.wait(msOf(time)),
  clock: (desk, [time = '']) => void (desk.nowMs += msOf(time)),
  /** Keeps the signals, until they find nobody. `gone`: a signal without a reply finds nobody. */
  keep: (desk) => void (desk.kept = desk.signals()),
  miss: (desk) => desk.miss(desk.kept),
  gone: (desk, words) => desk.miss(flat(words).map((name) => ({ workflowId: desk.idOf(name) }))),
  wake: (desk, words) => desk.call((budget) => budget.wake(flat(words).map((name) => desk.idOf(name)))),
  signals: (desk) => desk.signals().map((signal) => `${nameOf(signal)}:${signal.reply?.kind ?? 'wake'}`),
  granted: (desk) => desk.granted(),
  /** After how long the next grants come, and to whom. `then` does not say when. */
  next: (desk) => desk.nextGrants().flat(),
  then: (desk) => desk.nextGrants()[1],
  /** When something changes by itself. */
  change(desk) {
    const nextMs = desk.budget.nextChangeMs(desk.nowMs);
    return nextMs === undefined ? 'none' : nextMs - desk.nowMs;
  },
  /** How many slots are used, and when each is free again, from T0. */
  used: (desk) => slotEnds(desk.state).length,
  slots: (desk) => slotEnds(desk.state).map((endMs) => endMs - T0),
  line: (desk) => desk.state.waiters.map(nameOf),
  /** Sets the limit (`-`: leaves it), the window and the reserve. `bound` is the limit that counts. */
  limit(desk, [limit = '-', window, reserve]) {
    const change = { ...(window && { windowMs: msOf(window) }), ...(reserve && { reserve: Number(reserve) }) };
    desk.call((budget, nowMs) => budget.setLimit(nowMs, { ...(limit !== '-' && { limit: Number(limit) }), ...change }));
  },
  bound: (desk) => limitOf(desk.state),
  pause: (desk, [time]) => desk.pause(time === undefined ? {} : { untilMs: desk.nowMs + msOf(time) }),
  resume: (desk) => desk.resume(),
  /** Books those of a list that are closed, those that run behind `runs`, and `+1` others. */
  book(desk, words) {
    const runs = words.indexOf('runs');
    const sends = words.flatMap((word, index) =>
      /^\+|^runs$/.test(word)
        ? []
        : all(word).map(([name, job]) => ({
            workflowId: job === undefined ? desk.idOf(name) : followUp(name, job),
            isRunning: runs >= 0 && index > runs,
          })),
    );
    desk.book(sends, Number(words.find((word) => word.startsWith('+')) ?? 0));
  },
  /** Its memory begins now, without sends but for `nothing`. */
  forget(desk, words) {
    if (!words.includes('nothing')) desk.state.latestSends = {};
    desk.state.rememberedSinceMs = desk.nowMs;
  },
  counts: (desk) => void (desk.state.isCounting = true),
  counting: (desk) => String(desk.state.isCounting),
};

/**
 * Tests what a budget does when scripts are played: see {@link Desk.play}. Each rule is a title behind a dash, with the
 * budget's options in brackets, and its script in the lines below.
 */
export function testRules(text: string): void {
  const rules = text.split(/^\s*- /m).slice(1);
  it.each(rules.map((rule) => [...(/^(.*)\n([^]*)$/.exec(rule) ?? [])].slice(1)))('%s', (title = '', script = '') => {
    const [, options = ''] = / \[([^\]]*)\]$/.exec(title) ?? [];
    new Desk(optionsOf(options.split(' ').filter((word) => word !== ''))).play(script);
  });
}

const optionsOf = (words: readonly string[]): DeskOptions =>
  Object.fromEntries(
    words.map((word) => {
      const [name = '', value] = word.split('=');
      const [total = 0, forJob = 0] = (value ?? '').split('/').map(Number);
      return [name, value === undefined ? true : name === 'capacity' ? { total, forJob } : total];
    }),
  );
