import type { BatchFlow } from '../../src/batch/batch-flow.js';
import type { PartFlow } from '../../src/batch/part-flow.js';
import type { Budget, FollowUpSignal } from '../../src/budget/budget.js';
import type { PartInput } from '../../src/protocol/index.js';
import { drain, type World } from './world.js';

/** What a workflow receives by name (a signal, an update, a cancel), or the result of a call of its port. */
export type Happened =
  { name: string; input?: unknown; reply?: (result: unknown) => void } | ({ id: number } & Outcome);

/** How a call of a port ended. */
export interface Outcome {
  value?: unknown;
  error?: Error;
}

type Handlers = Record<string, (input: unknown) => unknown>;

/**
 * The code of a workflow with its input. `begin` returns its main function, and what receives signals and updates.
 * `prompt`: of a follow-up.
 */
export interface Code {
  begin(run: Run): { main: () => Promise<unknown>; handlers: Handlers };
  prompt?: string;
  /** What Temporal keeps of it besides its history. */
  kept?: { input?: PartInput; memo?: Record<string, unknown>; batchId?: string };
}

/** The next run begins with this state. */
export class ContinueAsNew {
  constructor(readonly state: unknown) {}
}

/** How the server runs an activity. What is missing has no bound. */
export interface ActivityOptions {
  isLocal?: true;
  startToCloseMs?: number;
  heartbeatMs?: number;
  wholeMs?: number;
  attempts?: number;
  retryMs?: readonly [first: number, longest: number];
}

/** An activity of a run. An operator may end or reset it. */
export interface Activity {
  run: Run;
  name: string;
  input: unknown;
  options: ActivityOptions;
  details: unknown;
  wasReset: boolean;
  isOver: boolean;
  end(outcome?: Outcome): void;
}

/** What a run and the ports of its code need of the server. */
export interface Host {
  readonly world: World;
  readonly faults: () => { undone: number };
  offsetOf(workflowId: string): number;
  plan(run: Run): void;
  close(run: Run, status: 'completed' | 'failed', end: Outcome): void;
  deliver(run: Run, event: Happened): boolean;
  running(workflowId: string): Run | undefined;
  deliverByName(workflowId: string, name: string, input?: unknown): boolean;
  signalFromBudget(run: Run, id: number, signal: FollowUpSignal): () => void;
  watchEnd(run: Run, id: number, workflowId: string): () => void;
  startActivity(run: Run, id: number, name: string, input: unknown, options: ActivityOptions): () => void;
}

/** Begins a call. Returns what stops it. */
type Begin = (id: number) => () => void;

/** After so long, a task under way is written to the history, and goes on as another one. */
const TASK_BEAT_MS = 8_000;

/** What a worker keeps in memory of a run. */
class Memory {
  nowMs = 0;
  tasks = 0;
  events = 0;
  lastCall = 0;
  end: readonly ['completed' | 'failed', Outcome] | undefined;
  /** A local call is part of a workflow task. */
  readonly calls = new Map<number, { begin: Begin; isLocal: boolean; finish: (outcome?: Outcome) => void }>();
  readonly conditions = new Set<{ isOver: () => boolean; meet: () => void }>();
  handlers: Handlers | undefined;
}

/** A run of a workflow with its history, which a worker that takes it over, or a reset, repeats. */
export class Run {
  status: 'running' | 'completed' | 'failed' | 'terminated' | 'continued' = 'running';
  closedAtMs = Infinity;
  end: Outcome = {};
  isTaskDue = false;
  isReplaying = false;
  /** What it runs, if that is a budget, a batch or a part. Also after its end. */
  budget: Budget | undefined;
  flow: BatchFlow | PartFlow | undefined;
  readonly inbox: Happened[] = [];
  /** What each step of a workflow task brought. Local activities drag it out: only the step that ends it is written. */
  readonly tasks: { atMs: number; events: Happened[]; endsTask: boolean }[] = [];
  readonly states: { atMs: number; state: string; sentAtMs: number | undefined }[] = [];
  readonly activities = new Set<Activity>();
  /** In which task its history has a marker. */
  readonly markers = new Map<string, number>();
  /** What its activities were given. A reset run takes over those under way as they are. */
  readonly inputs = new Map<number, unknown>();
  readonly #stops = new Map<number, () => void>();
  #replies: (() => void)[] = [];
  /** Calls that the task under way stops. */
  #stopped: number[] = [];
  /** When the last task was written: its calls, and what it showed. */
  #written = { calls: 0, states: 0 };
  #memory = new Memory();

  /** @param before the state of the run before */
  constructor(
    readonly server: Host,
    readonly workflowId: string,
    readonly runId: string,
    readonly startedAtMs: number,
    readonly code: Code,
    readonly originalRunId: string,
    readonly before: unknown,
  ) {}

  /** A run that begins as this one did, up to a step. */
  copy(runId: string, kept: number): Run {
    const { server, workflowId, startedAtMs, code, originalRunId, before } = this;
    const copy = new Run(server, workflowId, runId, startedAtMs, code, originalRunId, before);
    copy.tasks.push(...this.tasks.slice(0, kept));
    for (const [name, task] of this.markers) if (task < kept) copy.markers.set(name, task);
    return copy;
  }

  nowMs = (): number => this.#memory.nowMs;
  isLong = (most: number): boolean => this.#memory.events >= most;

  /** How many steps belong to tasks that are written. */
  get written(): number {
    return this.tasks.findLastIndex(({ endsTask }) => endsTask) + 1;
  }

  /** A worker takes the run over. `taken`: of the run that it replaces. */
  async replay(taken?: ReadonlyMap<number, unknown>): Promise<void> {
    if (this.written < this.tasks.length) this.#undo();
    this.#memory = new Memory();
    this.isReplaying = true;
    for (const { atMs, events } of this.tasks) await this.#step(atMs, events);
    this.isReplaying = false;
    for (const id of this.#memory.calls.keys()) if (taken?.has(id)) this.inputs.set(id, taken.get(id));
    this.#write();
    this.server.plan(this);
  }

  /** A step of a workflow task. What else happens meanwhile waits for the next task. */
  async task(nowMs: number): Promise<void> {
    const { world } = this.server;
    const beganAtMs = this.tasks[this.written]?.atMs ?? Infinity;
    if (nowMs - beganAtMs > TASK_BEAT_MS) this.#write();
    const isUnderWay = this.written < this.tasks.length;
    const isTaken = (event: Happened) => !isUnderWay || ('id' in event && this.#isLocal(event.id));
    const events = this.inbox.filter(isTaken);
    if (isUnderWay && events.length === 0) return;
    this.inbox.splice(0, Infinity, ...this.inbox.filter((event) => !events.includes(event)));
    this.tasks.push({ atMs: nowMs, events, endsTask: false });
    await this.#step(nowMs, events);
    const { end, calls } = this.#memory;
    if ([...calls.keys()].some((id) => this.#isLocal(id))) return;
    // The server closes no run that has news.
    const isRefused = end !== undefined && this.inbox.length > 0;
    if (isRefused || world.chance.happens(this.server.faults().undone)) {
      world.note('undone', this.workflowId, this.runId);
      return this.replay();
    }
    this.#write();
    if (end) this.server.close(this, ...end);
  }

  #isLocal = (id: number): boolean => this.#memory.calls.get(id)?.isLocal === true;

  /** The task under way is in the history: what it orders begins. */
  #write(): void {
    const { calls, lastCall } = this.#memory;
    for (const task of this.tasks.slice(this.written))
      for (const event of task.events) if ('reply' in event) delete event.reply;
    Object.assign(this.tasks.at(-1) ?? {}, { endsTask: true });
    this.#written = { calls: lastCall, states: this.states.length };
    for (const id of this.#stopped.splice(0)) this.#stops.get(id)?.();
    for (const [id, { begin }] of calls) this.#begin(id, begin);
    for (const reply of this.#replies.splice(0)) reply();
  }

  /** The task under way is lost: what it brought comes again, with what came since, and nothing of it was ordered. */
  #undo(): void {
    const { written } = this;
    const isKept = (event: Happened) => !('id' in event) || event.id <= this.#written.calls;
    const lost = this.tasks.splice(written).flatMap(({ events }) => events);
    this.inbox.splice(0, Infinity, ...[...lost, ...this.inbox].filter(isKept));
    this.states.length = this.#written.states;
    for (const [name, task] of this.markers) if (task >= written) this.markers.delete(name);
    for (const [id, stop] of this.#stops) {
      if (id <= this.#written.calls) continue;
      stop();
      this.#stops.delete(id);
      this.inputs.delete(id);
    }
    this.#stopped = [];
    this.#replies = [];
  }

  /** `result` is `undefined` if the call was stopped. */
  call(begin: Begin, isLocal = false): { result: Promise<Outcome | undefined>; stop: () => void } {
    const { calls } = this.#memory;
    const id = ++this.#memory.lastCall;
    const result = new Promise<Outcome | undefined>((finish) => calls.set(id, { begin, isLocal, finish }));
    if (isLocal && !this.isReplaying) this.#begin(id, begin);
    return { result, stop: () => this.#finish(id) };
  }

  activity = (name: string, input: unknown, options: ActivityOptions) =>
    this.call((id) => {
      const given = options.isLocal || !this.inputs.has(id) ? input : this.inputs.get(id);
      this.inputs.set(id, given);
      return this.server.startActivity(this, id, name, given, options);
    }, options.isLocal);

  condition = (isOver: () => boolean, ms?: number): Promise<boolean> =>
    new Promise((resolve) => {
      if (isOver()) return resolve(true);
      const { conditions } = this.#memory;
      const dueMs = this.nowMs() + (ms ?? 0) - this.server.offsetOf(this.workflowId);
      const begin = (id: number) => this.server.world.at(dueMs, () => this.server.deliver(this, { id, value: true }));
      const timer = ms === undefined ? undefined : this.call(begin);
      const end = (isMet: boolean) => (conditions.delete(condition), resolve(isMet));
      const condition = { isOver, meet: () => (timer?.stop(), end(true)) };
      conditions.add(condition);
      void timer?.result.then((fired) => fired && end(false));
    });

  /** `false` while a reset run repeats its past, unless that has the marker. */
  patched(name: string): boolean {
    const { tasks } = this.#memory;
    if (!this.isReplaying && !this.markers.has(name)) this.markers.set(name, tasks);
    return tasks >= (this.markers.get(name) ?? Infinity);
  }

  show(state: string, sentAtMs?: number): void {
    if (!this.isReplaying) this.states.push({ atMs: this.server.world.nowMs, state, sentAtMs });
  }

  async #step(nowMs: number, events: readonly Happened[]): Promise<void> {
    const memory = this.#memory;
    memory.nowMs = Math.max(memory.nowMs, nowMs);
    if (!memory.handlers) {
      const { main, handlers } = this.code.begin(this);
      memory.handlers = handlers;
      const fail = (error: unknown) => (memory.end = ['failed', { error: error as Error }]);
      void main().then((value) => (memory.end = ['completed', { value }]), fail);
    }
    // A worker delivers signals and updates first.
    const isTold = (event: Happened) => 'name' in event;
    const inOrder = [...events.filter(isTold), ...events.filter((event) => !isTold(event))];
    for (const event of inOrder) this.#apply(event, memory.handlers);
    for (let met = [true]; met.length > 0;) {
      await drain();
      met = [...memory.conditions].filter(({ isOver }) => isOver()).map(({ meet }) => (meet(), true));
    }
    memory.tasks += 1;
  }

  #apply(event: Happened, handlers: Handlers): void {
    this.#memory.events += 1;
    if ('id' in event) return this.#finish(event.id, { ...event, value: structuredClone(event.value) });
    const { name, input, reply } = event;
    let result: unknown;
    try {
      result = structuredClone(handlers[name]?.(structuredClone(input)));
    } catch (error) {
      result = error;
    }
    if (reply) this.#replies.push(() => reply(result));
  }

  #begin(id: number, begin: Begin): void {
    if (!this.#stops.has(id)) this.#stops.set(id, begin(id));
  }

  #finish(id: number, outcome?: Outcome): void {
    const call = this.#memory.calls.get(id);
    this.#memory.calls.delete(id);
    if (call?.isLocal && !outcome && !this.isReplaying) this.#stops.get(id)?.();
    else if (call && !outcome) this.#stopped.push(id);
    call?.finish(outcome);
  }
}
