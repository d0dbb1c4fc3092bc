import { afterEach, beforeEach, expect, vi } from 'vitest';
import { iso } from '../../src/common/index.js';
import type {
  AgentJob,
  Delivered,
  FollowUpProgress as Progress,
  FollowUpResult,
  FollowUpSettings as Settings,
} from '../../src/contract/index.js';
import { Failed } from '../../src/follow-up/failed.js';
import { FollowUp } from '../../src/follow-up/flow.js';
import { firstObservation, judge, type Read, type WatchRequest, type WatchResult } from '../../src/follow-up/judge.js';
import {
  type FollowUpPort,
  grantName,
  type NewReport,
  type ReadResult,
  type SendRequest,
  type SendResult,
  type SlotRequest,
  type SlotResult,
  type Stoppable,
  type Trouble,
} from '../../src/follow-up/port.js';
import type { AskReply, EarlierSend, Full, Granted, Waiting } from '../../src/protocol/index.js';
import { DAY, MINUTE, SECOND } from '../support/times.js';

export const START_MS = Date.UTC(2026, 0, 5, 12);

/** A job at rest before the send. */
export const rest = { status: 'completed', prLink: 'https://git/1', archivedAt: null } satisfies AgentJob;
/** At work on the message. */
export const working = { ...rest, status: 'active' } satisfies AgentJob;
/** At the end of the message's turn. */
export const done = { ...rest, prLink: 'https://git/2' } satisfies AgentJob;

export const notFound = { kind: 'notFound', message: 'no such job' } as const satisfies Read;
export const failed = (reason = 'service', more = {}) =>
  ({ kind: 'failed', reason, message: `HTTP error: ${reason}`, ...more }) as const satisfies Read;
export const asRead = (given: AgentJob | Read): Read =>
  'kind' in given ? (given as Read) : { kind: 'job', job: given };

const poll = { initialIntervalMs: 5 * SECOND, maxIntervalMs: MINUTE, backoffCoefficient: 1.5 };
/** What a follow-up and its watches share. */
export const watchSettings = { projectId: 'p', jobId: 'j', poll, settleTimeMs: 120_000, prLinkGraceMs: 30_000 };

/** Makes the clock of each test of a file virtual. */
export function useVirtualTime(): void {
  // Short enough for a test that never ends, long enough for a year of virtual time on a busy machine.
  vi.setConfig({ testTimeout: 60_000 });
  beforeEach(() => {
    vi.useFakeTimers({ now: START_MS, toFake: ['setTimeout', 'clearTimeout', 'Date'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });
}

/** More calls than a follow-up makes in a year. */
const MAX_CALLS = 20_000;

export const LEASE_MS = 60_000;
export const OVER_MS = 180_000;

/** Makes a reply of the budget to an ask, or one that a follow-up receives later, which is then about its first send. */
const replies =
  <R extends AskReply>(usual: () => Omit<R, 'runId' | 'sendNumber'>) =>
  (more: Partial<R> = {}) =>
  (request?: SlotRequest) =>
    ({ runId: 'run', sendNumber: request?.ask.sendNumber ?? 1, ...usual(), ...more }) as R;
export const granted = replies<Granted>(() => {
  return { kind: 'granted', grantedAtMs: Date.now(), leaseMs: LEASE_MS, overAtMs: Date.now() + OVER_MS };
});
export const waiting = replies<Waiting>(() => ({ kind: 'waiting', reason: 'slot', position: 3 }));
export const full = replies<Full>(() => ({ kind: 'full', reason: 'queue-full' }));
/** A send of this follow-up that another run was granted a minute ago. */
export const earlierSend = replies<EarlierSend>(() => ({
  ...{ kind: 'earlierSend', outcome: 'sent', verdict: 'current' },
  ...{ grantedAtMs: Date.now() - MINUTE, outcomeAtMs: Date.now() - 50 * SECOND, overAtMs: Date.now() + 2 * MINUTE },
}));
/** A grant at once, after a read that showed this job. */
export const grantedAfterRead =
  (jobBefore: AgentJob, more: Partial<Granted> = {}) =>
  (request: SlotRequest): SlotResult => ({ kind: 'asked', jobBefore, reply: granted(more)(request) });
/** The job works on a message that the budget does not know, so the follow-up is to watch it. */
export const waitingToWatch = (request: SlotRequest): SlotResult => {
  const reply = waiting({ reason: 'job-busy', position: 0, isToWatch: true })(request);
  return { kind: 'asked', unreadyJob: working, reply };
};
/** The server repeats the ask, because it gets no reply. */
export const noReply = (reason = 'budget-silent', reply?: (request: SlotRequest) => AskReply) =>
  ({ kind: 'noReply', reason, message: `no reply: ${reason}`, reply }) as const;
/** The read before the ask shows an archived job. */
export const archived = { kind: 'archived', job: { status: 'archived' } } as const satisfies SlotResult;

export const notSent = { outcome: 'notSent', message: 'too late' } as const satisfies ScriptedSend;
export const outcomeUnknown = { outcome: 'unknown', message: 'connection reset' } as const satisfies ScriptedSend;

/** `endedByHand`: a person ends the activity. */
type Reply = SlotResult | AskReply | ReturnType<typeof noReply> | { kind: 'endedByHand' };
type ScriptedReply = Reply | ((request: SlotRequest) => Reply);
type ScriptedSend = Partial<SendResult> & { afterMs?: number };

export interface Script {
  /** The reply to each ask, in order. @default granted at once */
  asks?: readonly ScriptedReply[] | ((request: SlotRequest, count: number) => ScriptedReply);
  /** What a read of the job before a send shows. @default a job at rest */
  read?: AgentJob | ReadResult;
  /** What the budget knows of the sends of other runs. @default nothing was delivered */
  wasDelivered?: Delivered | 'noReply';
  /** How each send ends, in order. @default sent */
  sends?: readonly ScriptedSend[] | ((request: SendRequest) => ScriptedSend);
  /**
   * What a watch reads, by the time since the last send, or since the start. `endedByHand`: a person ends each watch.
   *
   * @default at work for a minute
   */
  job?: ((sinceMs: number) => AgentJob | Read) | 'endedByHand';
  /** Whether the run replaces another one. @default false */
  mayHaveSent?: boolean;
  /** @default 0 */
  random?: number;
  /** @default false */
  isHistoryFull?: boolean;
}

/** A follow-up over a scripted budget and service, in virtual time. Its watches judge as the real ones do. */
export class Scene implements FollowUpPort {
  readonly startedAtMs = START_MS;
  readonly runId: string = 'run';
  readonly mayHaveSent: boolean;
  readonly flow: FollowUp;
  /** What it asked of its surroundings, in order. */
  readonly calls: string[] = [];
  readonly asked: { request: SlotRequest; afterMs: number }[] = [];
  readonly sent: { request: SendRequest; afterMs: number }[] = [];
  readonly reports: NewReport[] = [];
  readonly watched: WatchRequest[] = [];
  /** When each read of a watch was, after the start. */
  readonly polledAfterMs: number[] = [];
  /** The states that it showed, with their reasons. */
  readonly shown: string[] = [];
  shownSendAtMs: number | undefined;
  readonly #conditions = new Set<() => void>();
  #sinceMs = START_MS;
  #outcome: FollowUpResult | Failed | Error | undefined;

  constructor(
    private readonly script: Script = {},
    settings: Partial<Settings> = {},
  ) {
    this.mayHaveSent = script.mayHaveSent ?? false;
    this.flow = new FollowUp(
      {
        ...{ ...watchSettings, prompt: 'go on', lane: 'interactive', onUnknownDelivery: 'fail', whenActive: 'wait' },
        ...{ jobTimeoutMs: DAY, budgetWaitTimeoutMs: 7 * DAY, ...settings },
      },
      this,
    );
    void this.flow.run().then(
      (result) => (this.#outcome = result),
      (error: unknown) => (this.#outcome = error as Error),
    );
  }

  /** Lets time pass, after the follow-up has noticed what it received. */
  async advance(ms = 0): Promise<void> {
    this.#check();
    await vi.advanceTimersByTimeAsync(ms);
    this.#throwUnexpected();
  }

  /** Lets time pass until the follow-up ends. Asserts that its last call reports the end, which no other call did. */
  async end(): Promise<FollowUpResult | Failed> {
    this.#check();
    for (let steps = 0; steps < 50_000; steps += 1) {
      await vi.advanceTimersByTimeAsync(0);
      const outcome = this.#throwUnexpected();
      if (outcome) {
        expect(this.reports.filter(({ kind }) => kind === 'end')).toHaveLength(1);
        expect(this.calls.at(-1)).toBe('end');
        return outcome;
      }
      if (vi.getTimerCount() === 0) break;
      await vi.advanceTimersToNextTimerAsync();
    }
    throw new Error(`It does not end: ${this.calls.slice(-10).join(', ')}`);
  }

  /** The follow-up receives a signal from its budget. */
  receive(reply: () => Granted | Waiting): void {
    this.flow.receive(reply());
  }

  elapsedMs(): number {
    return Date.now() - START_MS;
  }

  /** When each ask was, after the start. */
  askedAfterMs(): number[] {
    return this.asked.map(({ afterMs }) => afterMs);
  }

  nowMs(): number {
    return Date.now();
  }

  random(): number {
    return this.script.random ?? 0;
  }

  condition(isOver: () => boolean, ms?: number): Promise<boolean> {
    return new Promise((resolve) => {
      const finish = (value: boolean) => {
        clearTimeout(timer);
        this.#conditions.delete(check);
        resolve(value);
      };
      const check = () => {
        if (isOver()) finish(true);
      };
      const timer = ms === undefined ? undefined : setTimeout(() => finish(false), ms);
      this.#conditions.add(check);
      check();
    });
  }

  async nextTask(): Promise<void> {
    this.#note('next task');
  }

  askForSlot(request: SlotRequest, untilMs: number, onTrouble: (trouble: Trouble) => void): Stoppable<SlotResult> {
    this.#note(`ask ${request.ask.sendNumber}`);
    this.asked.push({ request, afterMs: this.elapsedMs() });
    const { asks = () => granted() } = this.script;
    const scripted = typeof asks === 'function' ? asks(request, this.asked.length) : asks[this.asked.length - 1];
    return stoppable(async (sleep) => {
      await Promise.resolve();
      if (scripted === undefined) throw new Error(`Nothing is scripted: ${this.calls.join(', ')}`);
      const reply = typeof scripted === 'function' ? scripted(request) : scripted;
      switch (reply.kind) {
        case 'noReply':
          onTrouble(reply);
          await sleep(reply.reply ? 0 : untilMs - Date.now());
          return reply.reply && { kind: 'asked', jobBefore: rest, reply: reply.reply(request) };
        case 'endedByHand':
          return undefined;
        case 'asked':
        case 'archived':
        case 'notFound':
          return reply;
        default:
          return { kind: 'asked', jobBefore: rest, reply };
      }
    });
  }

  async wasDelivered(): Promise<Delivered | undefined> {
    this.#note('was it delivered?');
    const { wasDelivered = 'no' } = this.script;
    return wasDelivered === 'noReply' ? undefined : wasDelivered;
  }

  isHistoryFull(): boolean {
    return this.script.isHistoryFull ?? false;
  }

  patched(): boolean {
    return true;
  }

  async readJob(): Promise<ReadResult> {
    this.#note('read');
    const { read = rest } = this.script;
    return 'kind' in read ? (read as ReadResult) : { kind: 'job', job: read };
  }

  async sendMessage(request: SendRequest): Promise<SendResult> {
    this.#note(`send ${request.grant.sendNumber}`);
    this.sent.push({ request, afterMs: this.elapsedMs() });
    const { sends = (): ScriptedSend => ({}) } = this.script;
    const scripted = typeof sends === 'function' ? sends(request) : sends[this.sent.length - 1];
    if (!scripted) throw new Error(`Nothing is scripted: ${this.calls.join(', ')}`);
    const { afterMs = 0, ...result } = scripted;
    if (afterMs > 0) await new Promise((resolve) => setTimeout(resolve, afterMs));
    this.#sinceMs = Date.now();
    return { grant: grantName(request.grant), outcome: 'sent', jobBefore: request.jobBefore ?? rest, ...result };
  }

  async reportToBudget(report: NewReport): Promise<void> {
    this.#note(report.kind === 'outcome' ? `report ${report.sendNumber} ${report.outcome}` : 'end');
    this.reports.push(report);
  }

  watchJob(request: WatchRequest): Stoppable<WatchResult> {
    this.#note(`watch ${request.until}`);
    this.watched.push(structuredClone(request));
    return stoppable(async (sleep) => {
      const observation = structuredClone(request.observation ?? firstObservation(request, Date.now()));
      if (request.runId !== this.runId) return { kind: 'foreign', observation };
      const { job = (sinceMs: number) => (sinceMs < MINUTE ? working : done) } = this.script;
      if (job === 'endedByHand') return undefined;
      for (;;) {
        await sleep(Date.parse(observation.nextPollAt) - Date.now());
        this.polledAfterMs.push(this.elapsedMs());
        const end = judge(request, observation, asRead(job(Date.now() - this.#sinceMs)), Date.now());
        observation.nextPollAt = iso(
          Math.min(Date.now() + observation.intervalMs, Math.max(Date.now(), request.deadlineMs)),
        );
        if (end) return { ...end, observation };
      }
    });
  }

  show({ state, waitReason }: Progress, lastSendAtMs: number | undefined): void {
    this.shownSendAtMs = lastSendAtMs;
    const text = waitReason === undefined ? state : `${state} (${waitReason})`;
    if (this.shown.at(-1) !== text) this.shown.push(text);
  }

  /** Throws in a loop without a pause, which would keep the test from its timeout. */
  #note(call: string): void {
    this.calls.push(call);
    if (this.calls.length > MAX_CALLS) throw new Error(`It does not pause: ${this.calls.slice(-10).join(', ')}`);
  }

  #check(): void {
    for (const check of [...this.#conditions]) check();
  }

  /** Returns how the follow-up ended. Throws an error that is none of its failures, such as a missing reply. */
  #throwUnexpected(): FollowUpResult | Failed | undefined {
    const outcome = this.#outcome;
    if (outcome instanceof Error && !(outcome instanceof Failed)) throw outcome;
    return outcome;
  }
}

/** Work whose timers end with it. */
function stoppable<T>(work: (sleep: (ms: number) => Promise<void>) => Promise<T | undefined>): Stoppable<T> {
  let timer: NodeJS.Timeout | undefined;
  let stop = (): void => undefined;
  const stopped = new Promise<undefined>((resolve) => {
    stop = () => {
      clearTimeout(timer);
      resolve(undefined);
    };
  });
  const sleep = async (ms: number) => {
    if (ms > 0) await new Promise((resolve) => (timer = setTimeout(resolve, ms)));
  };
  return { result: Promise.race([work(sleep), stopped]), stop };
}
