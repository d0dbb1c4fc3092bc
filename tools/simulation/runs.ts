import type { Budget } from '../../src/budget/budget.js';
import type { BudgetState } from '../../src/budget/state.js';
import type { Activity, ActivityOptions, Server } from './server.js';
import { drain } from './world.js';

/** What a workflow is told by name (a signal, an update, a cancel), or the result of a call of its port. */
export type Happened =
  { name: string; input?: unknown; reply?: (answer: unknown) => void } | ({ id: number } & Outcome);

/** How a call of a port ended. */
export interface Outcome {
  value?: unknown;
  error?: Error;
}

type Handlers = Record<string, (input: unknown) => unknown>;

/** The code of a workflow with its input. `begin` returns its main function, and what hears signals and updates. */
export interface Code {
  begin(run: Run): { main: () => Promise<unknown>; handlers: Handlers };
  /** Of a follow-up. */
  prompt?: string;
}

/** The next run of a budget begins with this state. */
export class ContinueAsNew {
  constructor(readonly state: BudgetState) {}
}

/** Begins a call. Returns what stops it. */
type Begin = (id: number) => () => void;

/** What a worker keeps in memory of a run. */
class Memory {
  nowMs = 0;
  tasks = 0;
  events = 0;
  lastCall = 0;
  readonly calls = new Map<number, { begin: Begin; settle: (outcome: Outcome | undefined) => void }>();
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
  /** Of a budget. */
  budget: Budget | undefined;
  readonly inbox: Happened[] = [];
  /** What each workflow task brought. */
  readonly tasks: { atMs: number; events: Happened[] }[] = [];
  readonly states: { atMs: number; state: string }[] = [];
  readonly activities = new Set<Activity>();
  /** In which task its history has a marker. */
  readonly markers = new Map<string, number>();
  readonly workflowId: string;
  readonly runId: string;
  readonly startedAtMs: number;
  readonly code: Code;
  /** What its activities were given. A reset run takes over those under way as they are. */
  readonly inputs = new Map<number, unknown>();
  readonly #stops = new Map<number, () => void>();
  #answers: (() => void)[] = [];
  #memory = new Memory();

  /** @param what.before the state of the run before */
  constructor(
    readonly server: Server,
    readonly what: Pick<Run, 'workflowId' | 'runId' | 'startedAtMs' | 'code'> & {
      originalRunId: string;
      before: BudgetState | undefined;
    },
  ) {
    ({ workflowId: this.workflowId, runId: this.runId, startedAtMs: this.startedAtMs, code: this.code } = what);
  }

  nowMs = (): number => this.#memory.nowMs;
  isLong = (most: number): boolean => this.#memory.events >= most;

  /** A worker takes the run over. `taken`: of the run that it replaces. */
  async replay(taken?: ReadonlyMap<number, unknown>): Promise<void> {
    this.#memory = new Memory();
    this.isReplaying = true;
    for (const { atMs, events } of this.tasks) await this.#step(atMs, events);
    this.isReplaying = false;
    for (const id of this.#memory.calls.keys()) if (taken?.has(id)) this.inputs.set(id, taken.get(id));
    for (const [id, { begin }] of this.#memory.calls) this.#begin(id, begin);
  }

  /** A workflow task. */
  async task(nowMs: number): Promise<void> {
    const events = this.inbox.splice(0);
    this.tasks.push({ atMs: nowMs, events });
    await this.#step(nowMs, events);
    for (const event of events) if ('reply' in event) delete event.reply;
    for (const answer of this.#answers.splice(0)) answer();
  }

  /** `result` is `undefined` if the call was stopped. */
  call(begin: Begin): { result: Promise<Outcome | undefined>; stop: () => void } {
    const { calls } = this.#memory;
    const id = ++this.#memory.lastCall;
    const result = new Promise<Outcome | undefined>((settle) => calls.set(id, { begin, settle }));
    if (!this.isReplaying) this.#begin(id, begin);
    return { result, stop: () => this.#settle(id) };
  }

  activity = (name: string, input: unknown, options: ActivityOptions) =>
    this.call((id) => {
      const given = options.isLocal || !this.inputs.has(id) ? input : this.inputs.get(id);
      this.inputs.set(id, given);
      return this.server.startActivity(this, id, name, given, options);
    });

  condition = (isOver: () => boolean, ms?: number): Promise<boolean> =>
    new Promise((resolve) => {
      if (isOver()) return resolve(true);
      const { conditions } = this.#memory;
      const dueMs = this.nowMs() + (ms ?? 0) - this.server.offsetOf(this.workflowId);
      const begin = (id: number) => this.server.world.at(dueMs, () => this.server.deliver(this, { id, value: true }));
      const timer = ms === undefined ? undefined : this.call(begin);
      const end = (isMet: boolean) => {
        conditions.delete(condition);
        resolve(isMet);
      };
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

  show(state: string): void {
    if (!this.isReplaying) this.states.push({ atMs: this.server.world.nowMs, state });
  }

  async #step(nowMs: number, events: readonly Happened[]): Promise<void> {
    const memory = this.#memory;
    memory.nowMs = Math.max(memory.nowMs, nowMs);
    if (!memory.handlers) {
      const { main, handlers } = this.code.begin(this);
      memory.handlers = handlers;
      void main().then(
        (value) => this.server.close(this, 'completed', { value }),
        (error: unknown) => this.server.close(this, 'failed', { error: error as Error }),
      );
    }
    for (const event of events) this.#apply(event, memory.handlers);
    for (let met = [true]; met.length > 0;) {
      await drain();
      met = [...memory.conditions].filter(({ isOver }) => isOver()).map(({ meet }) => (meet(), true));
    }
    memory.tasks += 1;
  }

  #apply(event: Happened, handlers: Handlers): void {
    this.#memory.events += 1;
    if ('id' in event) return this.#settle(event.id, { ...event, value: structuredClone(event.value) });
    const { name, input, reply } = event;
    let answer: unknown;
    try {
      answer = structuredClone(handlers[name]?.(structuredClone(input)));
    } catch (error) {
      answer = error;
    }
    if (reply) this.#answers.push(() => reply(answer));
  }

  #begin(id: number, begin: Begin): void {
    if (!this.#stops.has(id)) this.#stops.set(id, begin(id));
  }

  #settle(id: number, outcome?: Outcome): void {
    const call = this.#memory.calls.get(id);
    this.#memory.calls.delete(id);
    if (call && !outcome && !this.isReplaying) this.#stops.get(id)?.();
    call?.settle(outcome);
  }
}
