import { afterEach, beforeEach, expect, test, vi } from 'vitest';
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
import { msOf } from '../budget/rules.js';

export const START_MS = Date.UTC(2026, 0, 5, 12);
export const SECOND = 1_000;
export const MINUTE = 60_000;
export const HOUR = 3_600_000;
export const DAY = 24 * HOUR;

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
  // A test that waits for ever says so soon, but a busy machine has time for a year of virtual time.
  vi.setConfig({ testTimeout: 60_000 });
  beforeEach(() => {
    vi.useFakeTimers({ now: START_MS, toFake: ['setTimeout', 'clearTimeout', 'Date'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });
}

export const LEASE_MS = 60_000;
export const OVER_MS = 180_000;

/** Answers of a budget, to an ask or as a signal. */
const answers =
  <A extends AskReply>(usual: () => Omit<A, 'runId' | 'sendNumber'>) =>
  (more: Partial<A> = {}) =>
  (request?: SlotRequest) =>
    ({ runId: 'run', sendNumber: request?.ask.sendNumber ?? 1, ...usual(), ...more }) as A;
export const granted = answers<Granted>(() => {
  return { kind: 'granted', grantedAtMs: Date.now(), leaseMs: LEASE_MS, overAtMs: Date.now() + OVER_MS };
});
export const waiting = answers<Waiting>(() => ({ kind: 'waiting', reason: 'slot', position: 3 }));
export const full = answers<Full>(() => ({ kind: 'full', reason: 'queue-full', retryMs: MINUTE }));
/** A send of this id that another run was granted a minute ago. */
export const earlierSend = answers<EarlierSend>(() => ({
  ...{
    kind: 'earlierSend',
    grantedTo: 'earlier',
    outcome: 'sent',
    verdict: 'current',
  },
  ...{ grantedAtMs: Date.now() - MINUTE, outcomeAtMs: Date.now() - 50 * SECOND, overAtMs: Date.now() + 2 * MINUTE },
}));
/** A grant at once, after a read of the job. */
export const grantedAfter =
  (jobBefore: AgentJob, more: Partial<Granted> = {}) =>
  (request: SlotRequest): SlotResult => ({ kind: 'asked', jobBefore, reply: granted(more)(request) });
/** An ask that the server repeats without an answer. */
export const silent = (reason = 'budget-silent') =>
  ({ kind: 'silent', reason, message: `nothing: ${reason}` }) as const;
/** The job works on a message that the budget does not know. */
export const atWork = (request: SlotRequest): SlotResult => {
  const reply = waiting({ reason: 'job-busy', position: 0, isToWatch: true })(request);
  return { kind: 'asked', busyJob: working, reply };
};

/** `nothing`: a person ends the ask. */
type Reply = SlotResult | AskReply | ReturnType<typeof silent> | { kind: 'nothing' };
type ScriptedReply = Reply | ((request: SlotRequest) => Reply);
type ScriptedSend = Partial<SendResult> & { afterMs?: number };

export interface Script {
  /** What each ask is answered, in order. @default granted at once */
  asks?: readonly ScriptedReply[] | ((request: SlotRequest, count: number) => ScriptedReply);
  /** What the job shows after a wait for a grant. @default at rest */
  read?: AgentJob | ReadResult;
  /** What the budget knows of other runs' sends. @default nothing was delivered */
  wasDelivered?: Delivered | 'silent';
  /** How each send ends, in order. @default sent */
  sends?: readonly ScriptedSend[] | ((request: SendRequest) => ScriptedSend);
  /**
   * What the service shows, by the time since the last send, or since the start. `none`: a person ends each watch.
   *
   * @default at work for a minute
   */
  job?: ((sinceMs: number) => AgentJob | Read) | 'none';
  port?: Partial<Pick<FollowUpPort, 'runId' | 'mayHaveSent' | 'random' | 'isHistoryFull'>>;
}

/** A follow-up over a scripted budget and service, in virtual time. Its watches judge as the real ones do. */
export class Scene implements FollowUpPort {
  readonly startedAtMs = START_MS;
  readonly runId: string = 'run';
  readonly mayHaveSent: boolean = false;
  readonly flow: FollowUp;
  readonly calls: string[] = [];
  readonly asked: { order: SlotRequest; atMs: number }[] = [];
  readonly sent: { order: SendRequest; atMs: number }[] = [];
  readonly reports: NewReport[] = [];
  readonly watched: WatchRequest[] = [];
  readonly shown: string[] = [];
  shownSendAtMs: number | undefined;
  readonly polledAtMs: number[] = [];
  readonly #conditions = new Set<() => void>();
  #sinceMs = START_MS;
  #outcome: FollowUpResult | Failed | Error | undefined;

  constructor(
    settings: Partial<Settings>,
    private readonly script: Script,
  ) {
    Object.assign(this, script.port);
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

  /** Lets time pass, after the follow-up has noticed what it was told. */
  readonly pass = async (ms = 0): Promise<void> => {
    this.#check();
    await vi.advanceTimersByTimeAsync(ms);
  };

  /** Lets time pass until the follow-up ends. */
  async end(): Promise<FollowUpResult | Failed> {
    this.#check();
    for (let steps = 0; steps < 50_000; steps += 1) {
      await vi.advanceTimersByTimeAsync(0);
      const outcome = this.#outcome;
      if (outcome instanceof Error && !(outcome instanceof Failed)) throw outcome;
      if (outcome) return outcome;
      if (vi.getTimerCount() === 0) break;
      await vi.advanceTimersToNextTimerAsync();
    }
    throw new Error(`It does not end: ${this.calls.slice(-10).join(', ')}`);
  }

  /** Carries steps out, with commas between them. What is behind an arrow is asserted. */
  async play(steps: string): Promise<void> {
    for (const step of steps.split(',').map((text) => text.trim())) {
      const [action = '', expected = ''] = step.split('->').map((text) => text.trim());
      const [verb = '', ...words] = action.split(/\s+/);
      const found = await verbs[verb]?.(this, words);
      if (expected !== '') expect(found, step).toBe(expected);
    }
  }

  nowMs(): number {
    return Date.now();
  }

  random(): number {
    return 0;
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
    this.calls.push('next task');
  }

  askForSlot(request: SlotRequest, untilMs: number, onTrouble: (trouble: Trouble) => void): Stoppable<SlotResult> {
    this.calls.push(`ask ${request.ask.sendNumber}`);
    this.asked.push({ order: request, atMs: Date.now() });
    const { asks = () => granted() } = this.script;
    const scripted = typeof asks === 'function' ? asks(request, this.asked.length) : asks[this.asked.length - 1];
    return stoppable(async (sleep) => {
      await Promise.resolve();
      if (scripted === undefined) throw new Error(`Nothing is scripted: ${this.calls.join(', ')}`);
      const reply = typeof scripted === 'function' ? scripted(request) : scripted;
      switch (reply.kind) {
        case 'silent':
          onTrouble(reply);
          await sleep(untilMs - Date.now());
          return undefined;
        case 'nothing':
          return undefined;
        case 'asked':
        case 'archived':
        case 'notFound':
        case 'notServed':
          return reply;
        default:
          return { kind: 'asked', jobBefore: rest, reply };
      }
    });
  }

  async wasDelivered(): Promise<Delivered | undefined> {
    this.calls.push('was it delivered?');
    const { wasDelivered = 'no' } = this.script;
    return wasDelivered === 'silent' ? undefined : wasDelivered;
  }

  isHistoryFull(): boolean {
    return false;
  }

  wasResetSince(runId: string): boolean {
    return runId !== this.runId;
  }

  async readJob(): Promise<ReadResult> {
    this.calls.push('read');
    const { read = rest } = this.script;
    return 'kind' in read ? (read as ReadResult) : { kind: 'job', job: read };
  }

  async sendMessage(request: SendRequest): Promise<SendResult> {
    this.calls.push(`send ${request.grant.sendNumber}`);
    this.sent.push({ order: request, atMs: Date.now() });
    const { sends = (): ScriptedSend => ({}) } = this.script;
    const scripted = typeof sends === 'function' ? sends(request) : sends[this.sent.length - 1];
    if (!scripted) throw new Error(`Nothing is scripted: ${this.calls.join(', ')}`);
    const { afterMs = 0, ...result } = scripted;
    if (afterMs > 0) await new Promise((resolve) => setTimeout(resolve, afterMs));
    this.#sinceMs = Date.now();
    return { grant: grantName(request.grant), outcome: 'sent', jobBefore: request.jobBefore ?? rest, ...result };
  }

  async reportToBudget(report: NewReport): Promise<void> {
    this.calls.push(report.kind === 'outcome' ? `report ${report.sendNumber} ${report.outcome}` : 'end');
    this.reports.push(report);
  }

  watchJob(request: WatchRequest): Stoppable<WatchResult> {
    this.calls.push(`watch ${request.until}`);
    this.watched.push(structuredClone(request));
    return stoppable(async (sleep) => {
      const observation = structuredClone(request.observation ?? firstObservation(request, Date.now()));
      if (request.runId !== this.runId) return { kind: 'foreign', observation };
      const { job = (sinceMs: number) => (sinceMs < MINUTE ? working : done) } = this.script;
      if (job === 'none') return undefined;
      for (;;) {
        await sleep(Date.parse(observation.nextPollAt) - Date.now());
        this.polledAtMs.push(Date.now());
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

  #check(): void {
    for (const check of [...this.#conditions]) check();
  }
}

const shownMs = (ms: number) => (ms % MINUTE === 0 ? `${ms / MINUTE}m` : `${ms / SECOND}s`);
/** How it ended. */
export const endText = (end: FollowUpResult | Failed) =>
  'type' in end ? `${end.type} ${end.delivered}` : `${end.delivery} ${end.status}`;

const verbs: Record<string, (scene: Scene, words: string[]) => unknown> = {
  pass: (scene, [time = '0']) => scene.pass(msOf(time)),
  /** A grant or a reason to wait arrives, in the name of a run and of a send. */
  grant: ({ flow }, [runId = 'run', number = '1']) => flow.receive(granted({ runId, sendNumber: Number(number) })()),
  wait: ({ flow }) => flow.receive(waiting()()),
  poll: ({ flow }) => flow.pollNow(),
  wake: ({ flow }) => flow.wake(),
  cancel: ({ flow }) => flow.cancel(),
  word: ({ flow }, [word]) => flow.resolveDelivery(word as 'sent' | 'notSent'),
  refusal: ({ flow }, [word]) => String(flow.issueWithDecision(word) !== undefined),
  end: async (scene) => endText(await scene.end()),
  sent: ({ sent }) => String(sent.length),
  watched: ({ watched }) => String(watched.length),
  polled: ({ polledAtMs }) => shownMs((polledAtMs.at(-1) ?? 0) - START_MS),
  asked: ({ asked }) => asked.map(({ atMs }) => shownMs(atMs - START_MS)).join(' '),
  passed: () => shownMs(Date.now() - START_MS),
  state: ({ shown }) => shown.at(-1),
  /** The calls from the first, or the last ones of a number. */
  calls: ({ calls }, [count]) => (count === undefined ? calls : calls.slice(-Number(count))).join('; '),
};

/** Tests what a follow-up does when steps are played: see {@link Scene.play}. */
export function testScenes(
  scenes: [title: string, script: Script, steps: string, settings?: Partial<Settings>][],
): void {
  test.each(scenes)('%s', (_title, script, steps, settings = {}) => new Scene(settings, script).play(steps));
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
