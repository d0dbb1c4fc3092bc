import { Batch, type BatchStart, type BatchState } from '../../src/batch/batch.js';
import { BatchFlow } from '../../src/batch/batch-flow.js';
import { PartFlow } from '../../src/batch/part-flow.js';
import {
  type FindItemsInput,
  type FoundItem,
  type FoundPart,
  type PartInput,
  partOrderSchema,
  partReportSchema,
  partWorkflowId,
} from '../../src/contract/batch-protocol.js';
import type { ItemOutcome } from '../../src/contract/batch-result.js';
import { followUpBatchWorkflowId, type FollowUpInput } from '../../src/contract/index.js';
import { type Code, ContinueAsNew, type Outcome, type Run } from './runs.js';
import { Server } from './server.js';
import type { World } from './world.js';

/** The follow-up of an item: what its own workflow would do, without its budget. */
export interface SimulatedFollowUp {
  workflowId: string;
  batchId: string;
  hash: string;
  input: FollowUpInput;
  wasSent: boolean;
  outcome?: ItemOutcome;
  closedAtMs: number;
}

/** Waits for the end of a workflow, for a run of its parent. */
interface Watcher {
  run: Run;
  id: number;
}

const schemas = { order: partOrderSchema, report: partReportSchema };

/** A Temporal server with a batch, its parts and their follow-ups. Children that are started survive their parents. */
export class BatchServer extends Server {
  readonly followUps = new Map<string, SimulatedFollowUp>();
  /** The flows of runs, which answer queries also after the end. */
  readonly flows = new Map<Run, BatchFlow | PartFlow>();
  readonly arrivals: { workflowId: string; prompt: string; atMs: number }[] = [];
  readonly crashes: string[] = [];
  mostOpen = 0;
  readonly #watchers = new Map<string, Watcher[]>();

  constructor(
    world: World,
    readonly options: { mostPartItems: number; mostEvents: number; faults: () => { undone: number; lost: number } },
  ) {
    super(world);
  }

  faults = () => this.options.faults();
  /** Unlike for follow-ups, nothing is drawn if a task is due: seeds keep their worlds only if this stays so. */
  protected queuedMs = (run: Run): number => (run.isTaskDue ? 0 : this.world.chance.between(3, 60));

  protected closed = ({ workflowId, status, end }: Run): void => {
    if (end.error) this.crashes.push(`${workflowId} ${String(end.error.stack)}`);
    if (status !== 'continued') this.#tellWatchers(workflowId, end);
  };

  /** The parent of a run that is reset hears nothing, until the next run ends. */
  protected override closeForReset = (run: Run | undefined): void =>
    void Object.assign(run ?? {}, { status: 'terminated', closedAtMs: this.world.nowMs });

  override tell(workflowId: string, name: string, input?: unknown): boolean {
    const { runId = 'not found' } = this.running(workflowId) ?? {};
    this.world.note(name, workflowId, runId, JSON.stringify(input)?.slice(0, 400));
    return super.tell(workflowId, name, input);
  }

  /** A call whose answer is there after a while. It is repeated if its worker dies. */
  startActivity(run: Run, id: number, name: string, input: unknown): () => void {
    const { world } = this;
    let isOver = false;
    const attempt = () => {
      if (isOver) return;
      if (world.chance.happens(this.faults().lost)) return void world.after(1_000, attempt);
      const value = name === 'findPart' ? this.findPart(input as string) : this.findItems(input as FindItemsInput);
      world.note(name, run.workflowId, JSON.stringify(value).slice(0, 200));
      world.after(world.chance.between(2, 100), () => this.deliver(run, { id, value }));
    };
    world.after(world.chance.between(2, 100), attempt);
    return () => (isOver = true);
  }

  findPart(workflowId: string): FoundPart {
    const run = this.latest(workflowId);
    if (!run) return {};
    const flow = this.flows.get(run);
    return run.status === 'running' ? { isOpen: true } : flow instanceof PartFlow ? { items: flow.input } : {};
  }

  findItems({ batchId, items }: FindItemsInput): FoundItem[] {
    return items.map(({ workflowId, hash }) => this.find(workflowId, batchId, hash));
  }

  /** What `readFollowUpEnd` does. */
  find(workflowId: string, batchId: string, hash: string): FoundItem {
    const followUp = this.followUps.get(workflowId);
    if (!followUp) return {};
    if (followUp.batchId !== batchId || followUp.hash !== hash) return { outcome: error('NotStarted', 'no') };
    return followUp.outcome ? { outcome: followUp.outcome } : { isOpen: true };
  }

  startFollowUp(batchId: string, workflowId: string, input: FollowUpInput, hash: string): 'used' | 'started' {
    if (this.followUps.has(workflowId)) return 'used';
    this.followUps.set(workflowId, { workflowId, batchId, hash, input, wasSent: false, closedAtMs: Infinity });
    this.world.note('start', workflowId);
    this.goOn(workflowId);
    return 'started';
  }

  /** A follow-up waits for its slot, sends once, watches, and ends. Its budget sees to it that it never sends twice. */
  goOn(workflowId: string): void {
    const { world } = this;
    const followUp = this.followUps.get(workflowId)!;
    this.mostOpen = Math.max(this.mostOpen, [...this.followUps.values()].filter((each) => !each.outcome).length);
    const fate = world.chance.next();
    world.after(world.chance.between(100, 40_000), () => {
      if (followUp.outcome) return;
      if (!followUp.wasSent && fate < 0.1) return this.endFollowUp(followUp, error('JobNotFound', 'no'));
      if (!followUp.wasSent) {
        followUp.wasSent = true;
        this.arrivals.push({ workflowId, prompt: followUp.input.prompt, atMs: world.nowMs });
      }
      if (fate > 0.95) return this.endFollowUp(followUp, error('DeliveryUnknown', 'unknown'));
      world.after(world.chance.between(100, 60_000), () =>
        this.endFollowUp(followUp, { status: 'completed', prLink: null }),
      );
    });
  }

  endFollowUp(followUp: SimulatedFollowUp, outcome: ItemOutcome): void {
    if (followUp.outcome) return;
    followUp.outcome = outcome;
    followUp.closedAtMs = this.world.nowMs;
    this.world.note('end', followUp.workflowId, JSON.stringify(outcome));
    this.#tellWatchers(followUp.workflowId, { value: outcome });
  }

  cancelFollowUp(workflowId: string): boolean {
    const followUp = this.followUps.get(workflowId);
    if (!followUp || followUp.outcome) return false;
    this.endFollowUp(followUp, error('Cancelled', followUp.wasSent ? 'yes' : 'no'));
    return true;
  }

  /** A reset follow-up goes on. Only one that has not sent will send. */
  resetFollowUp(followUp: SimulatedFollowUp): void {
    const wasOpen = !followUp.outcome;
    delete followUp.outcome;
    followUp.closedAtMs = Infinity;
    this.world.note('reset', followUp.workflowId);
    if (!wasOpen) this.goOn(followUp.workflowId);
  }

  /** The end of a child, if its parent runs at that time; also for a run that a reset makes of it. */
  watchEnd(run: Run, id: number, workflowId: string): () => void {
    const followUp = this.followUps.get(workflowId);
    const closed = followUp
      ? { atMs: followUp.closedAtMs, end: { value: followUp.outcome } }
      : { atMs: this.latest(workflowId)?.closedAtMs ?? Infinity, end: {} };
    const wasHeard = this.runs
      .get(run.workflowId)
      ?.some((each) => each.startedAtMs <= closed.atMs && closed.atMs < each.closedAtMs);
    if (closed.atMs === Infinity) {
      this.#watchers.set(workflowId, [...(this.#watchers.get(workflowId) ?? []), { run, id }]);
    } else if (wasHeard) this.deliver(run, { id, ...closed.end });
    return () => undefined;
  }

  #tellWatchers(workflowId: string, { value }: Outcome): void {
    for (const { run, id } of this.#watchers.get(workflowId) ?? []) this.deliver(run, { id, value });
    this.#watchers.delete(workflowId);
  }
}

export function error(type: NonNullable<ItemOutcome['error']>['type'], delivered: 'yes' | 'no' | 'unknown') {
  return { error: { type, message: type, delivered } } as const satisfies ItemOutcome;
}

/** What both flows have of a run. */
function commonPort(run: Run, wake: () => void) {
  const server = run.server as unknown as BatchServer;
  const { world } = server;
  let alarmAtMs = Infinity;
  /** Does `what` after a while, unless the call is stopped before. */
  const later = async <T>(what: () => T): Promise<T> => {
    const begin = (id: number) =>
      world.after(world.chance.between(2, 200), () => void server.deliver(run, { id, value: what() }));
    return (await run.call(begin).result)?.value as T;
  };
  const ended = async (workflowId: string) =>
    (await run.call((id) => server.watchEnd(run, id, workflowId)).result)?.value;
  const wakeAt = (atMs: number) => {
    if (atMs >= alarmAtMs) return;
    alarmAtMs = atMs;
    void run
      .condition(() => false, Math.max(1, Math.ceil(atMs - run.nowMs())))
      .then(() => {
        if (alarmAtMs !== atMs) return;
        alarmAtMs = Infinity;
        wake();
      });
  };
  return { server, later, ended, wakeAt, nowMs: run.nowMs, condition: run.condition };
}

/** The shipped flow of a part. */
function part(input: PartInput): Code {
  const begin = (run: Run) => {
    const { server, later, ended, ...port } = commonPort(run, () => flow.wake());
    const { batchId } = input;
    const flow: PartFlow = new PartFlow(input, {
      ...port,
      show: () => undefined,
      findItems: async (asked) => (await run.activity('findItems', asked, {}).result)?.value as FoundItem[],
      tellBatch: (report) => later(() => server.tell(followUpBatchWorkflowId({ batchId }), 'report', report)),
      cancelFollowUp: (workflowId) => later(() => server.cancelFollowUp(workflowId)),
      runFollowUp: async ({ workflowId, input: item, hash }) => {
        const started = await later(() => server.startFollowUp(batchId, workflowId, item, hash));
        return started === 'used' ? 'used' : ((await ended(workflowId)) as ItemOutcome);
      },
    });
    server.flows.set(run, flow);
    const handlers = {
      order: (order: unknown) => flow.hear(schemas.order.parse(order)),
      cancel: () => flow.refuseCancel(),
    };
    return { main: () => flow.run(), handlers };
  };
  return { begin };
}

/** The shipped flow of a batch. */
export function batch(start: BatchStart, items: readonly unknown[]): Code {
  const begin = (run: Run) => {
    const { server, later, ended, condition, ...port } = commonPort(run, () => flow.wake());
    const { mostPartItems, mostEvents } = server.options;
    const before = structuredClone(run.what.before) as BatchState | undefined;
    const rules = before
      ? new Batch(before, mostPartItems)
      : Batch.create({ ...start, startedAtMs: run.startedAtMs }, items, mostPartItems);
    const startPart = (input: PartInput) => {
      const workflowId = partWorkflowId(input);
      if (server.running(workflowId) || (input.again === undefined && server.latest(workflowId))) return 'used';
      server.start(workflowId, part(structuredClone(input)));
      return 'started';
    };
    const flow: BatchFlow = new BatchFlow(rules, {
      ...port,
      condition,
      isAnswering: () => false,
      isNextRunDue: () => run.isLong(mostEvents),
      continueAsNew: (state) => Promise.reject(Object.assign(new Error('continued'), { state })),
      findPart: async (workflowId) => (await run.activity('findPart', workflowId, {}).result)?.value as FoundPart,
      tellPart: (workflowId, order) => later(() => server.tell(workflowId, 'order', order)),
      startPart: async (input) => {
        const started = await later(() => startPart(input));
        return started === 'used' ? 'used' : { ended: ended(partWorkflowId(input)) };
      },
      show: () => undefined,
    });
    server.flows.set(run, flow);
    const main = () =>
      flow.run().catch((thrown: unknown) => {
        const error = thrown as Error & { state?: BatchState };
        if (!error.state) throw error;
        return new ContinueAsNew(JSON.parse(JSON.stringify(error.state)));
      });
    const handlers = {
      report: (report: unknown) => flow.hear(schemas.report.parse(report)),
      cancel: () => flow.change(() => rules.cancel()),
      add: (input: unknown) => {
        const { more, offset } = input as { more: unknown[]; offset: number };
        const updateId = `add ${offset} ${more.length}`;
        if (!rules.issueWith(more, offset, updateId)) void flow.add(more, offset, updateId);
      },
      seal: () => flow.change(() => rules.seal()),
      proceed: () => rules.canProceed && flow.change(() => rules.proceed()),
    };
    return { main, handlers };
  };
  return { begin };
}
