import type { FlowPort } from '../../src/batch/base-flow.js';
import { Batch } from '../../src/batch/batch.js';
import { BatchFlow } from '../../src/batch/batch-flow.js';
import type { BatchStart, BatchState } from '../../src/batch/batch-state.js';
import { PartFlow } from '../../src/batch/part-flow.js';
import { type PlannedBatch, planRetry, type RetryPlan } from '../../src/client/batch-retry.js';
import { defined } from '../../src/common/index.js';
import {
  type BatchItem,
  followUpBatchWorkflowId,
  type FollowUpInput,
  followUpInputSchema,
} from '../../src/contract/index.js';
import {
  ITEM_HASH_MEMO,
  type PartInput,
  partReportSchema,
  partWorkflowId,
  sentOrderSchema,
} from '../../src/protocol/index.js';
import { clientOf } from './client.js';
import { followUp, receive } from './ports.js';
import { type Code, ContinueAsNew, type Run } from './runs.js';
import type { Stage } from './stage.js';

/** A list that was started as a batch. */
interface Started extends Pick<BatchStart, 'canary' | 'maxFailures'> {
  items: FollowUpInput[];
  memo: Record<string, unknown>;
  proceededAtMs: number;
  cancelledAtMs: number;
}

const FIND = { startToCloseMs: 120_000, retryMs: [1_000, 30_000] } as const;
const idOf = (batchId: string): string => followUpBatchWorkflowId({ batchId });

/** A batch and its retries: whoever starts them, hands their items over, lets them go on when they are held. */
export class Batches {
  isOver = false;
  readonly started = new Map<string, Started>();
  #mostOpen = 0;
  readonly #maxOpen: number;
  readonly #maxPartItems: number;
  readonly #mostEvents: number;

  constructor(private readonly stage: Stage) {
    const { chance } = stage.world;
    for (const jobId of stage.service.jobs.keys()) if (chance.happens(0.1)) stage.service.archive(jobId);
    this.#maxOpen = chance.whole(1, 8);
    this.#maxPartItems = chance.whole(2, 12);
    this.#mostEvents = chance.pick([15, 60, 1_000]);
    const canary = chance.happens(0.4) ? chance.whole(1, 4) : undefined;
    const maxFailures = chance.happens(0.3) ? chance.pick([0, 1, '20%']) : undefined;
    this.start('b', this.newItems('b'), defined({ canary, maxFailures }));
    if (chance.happens(0.2)) stage.world.after(chance.between(100, 600_000), () => this.cancel('b'));
    this.#watch();
  }

  newItems(name: string): FollowUpInput[] {
    const { chance } = this.stage.world;
    const jobs = [...this.stage.service.jobs.keys()];
    return Array.from({ length: chance.whole(1, 30) }, (_, index) => ({
      ...{ projectId: chance.pick(['p', 'q']), jobId: chance.pick(jobs), prompt: `${name}${index}#`, lane: 'batch' },
    }));
  }

  start(batchId: string, items: FollowUpInput[], brake: Pick<BatchStart, 'canary' | 'maxFailures'>, memo = {}): void {
    const { world, server } = this.stage;
    const { chance } = world;
    const inPieces = chance.happens(0.4);
    const first = inPieces ? chance.whole(0, items.length) : items.length;
    this.started.set(batchId, { items, ...brake, memo, proceededAtMs: Infinity, cancelledAtMs: Infinity });
    const template = { lane: 'batch', jobTimeout: '1h', budgetWaitTimeout: '20h' };
    const start = { batchId, maxOpen: this.#maxOpen, template, startedAtMs: 0, ...brake, sealed: !inPieces };
    server.start(idOf(batchId), this.#batch(start, items.slice(0, first)));
    // Whoever hands the rest over repeats it until it has arrived.
    const hand = () => {
      world.after(chance.between(500, 20_000), hand);
      const { total = first, sealed = false } = this.flowOf(batchId)?.batch.status() ?? {};
      if (sealed || this.started.get(batchId)?.items !== items) return;
      const more = items.slice(total, total + chance.whole(1, 8));
      if (more.length > 0) server.deliverByName(idOf(batchId), 'add', { more, offset: total });
      else server.deliverByName(idOf(batchId), 'seal', items.length);
    };
    if (inPieces) world.after(1_000, hand);
  }

  cancel(batchId: string): void {
    const { server, world } = this.stage;
    if (server.deliverByName(idOf(batchId), 'cancel'))
      Object.assign(this.started.get(batchId)!, { cancelledAtMs: world.nowMs });
  }

  flowOf(batchId: string): BatchFlow | undefined {
    return this.stage.server.latest(idOf(batchId))?.flow as BatchFlow | undefined;
  }

  /** An operator looks now and then: lets held batches go on, and retries what has ended. */
  #watch(): void {
    const { world, server, log } = this.stage;
    world.after(world.chance.between(60_000, 240_000), async () => {
      this.#watch();
      for (const [id, started] of this.started) {
        if (!this.flowOf(id)?.batch.status().hold || !server.deliverByName(idOf(id), 'proceed')) continue;
        started.proceededAtMs = Math.min(started.proceededAtMs, world.nowMs);
      }
      const isRunning = [...this.started.keys()].some((id) => server.running(idOf(id)));
      if (!isRunning && world.nowMs > log.healedAtMs && !this.isOver) await this.#retry();
    });
  }

  /** Two people plan a retry at the same time. */
  async #retry(): Promise<void> {
    const { server, world } = this.stage;
    for (const id of this.started.keys()) this.#check(id);
    this.isOver = this.started.size > 3 || server.latest(idOf('b'))?.status !== 'completed';
    if (this.isOver) return;
    const plans: RetryPlan[] = [];
    for (const only of ['failed', undefined] as const) {
      const asked = world.chance.pick([...this.started.keys()]);
      const plan = await planRetry(clientOf(server.latest), (id) => this.#plannedBatch(id), asked, { only });
      if (plan.input.items.length > 0 && plan.unknown === 0) plans.push(plan);
    }
    this.isOver = plans.length === 0;
    for (const { input, retryOf, indexes } of plans) {
      const { id, items, canary, maxFailures } = input;
      if (!this.started.has(id)) this.start(id, items, defined({ canary, maxFailures }), { retryOf, indexes });
    }
  }

  /** What the plan of a retry asks of a batch. */
  #plannedBatch(id: string): PlannedBatch {
    const { batch } = this.flowOf(id)!;
    const items = this.#itemsOf(id);
    return {
      status: async () => batch.status(),
      parts: async () => batch.partIds(),
      async *list() {
        yield* items;
      },
    };
  }

  /** The items of a batch, as its flow and those of its parts tell them. */
  #itemsOf(id: string): BatchItem[] {
    const { batch } = this.flowOf(id)!;
    const found = new Map<number, BatchItem>();
    for (const part of batch.partIds()) {
      const flow = this.stage.server.latest(part)?.flow as PartFlow | undefined;
      const { items } = flow?.page({ offset: flow.input.first, limit: 500 }) ?? { items: [] };
      for (const item of items) found.set(item.index, item);
    }
    for (const item of batch.page(0, 500).items) found.set(item.index, item);
    return [...found.values()].sort((one, other) => one.index - other.index);
  }

  /** Compares what a batch says with what arrived. */
  #check(id: string): void {
    const { server, service, log, has } = this.stage;
    if (server.latest(idOf(id))?.status !== 'completed') return;
    const { batch } = this.flowOf(id)!;
    const { items, cancelledAtMs } = this.started.get(id)!;
    const { total, completed, archived, failed, errors } = batch.result();
    if (total !== items.length && !batch.state.cancelled) log.find('lost', `${id}: ${total} of ${items.length} items`);
    if (total !== completed + archived + failed + errors) log.find('lost', `${id}: the counts are not complete`);
    for (const { index, workflowId, status, error } of this.#itemsOf(id)) {
      if (server.restarted.has(workflowId)) continue;
      const { prompt = '' } = items[index] ?? {};
      const ofItem = service.arrivals.filter((each) => each.workflowId === workflowId && each.prompt === prompt);
      const arrived = ofItem.filter(({ isAccepted }) => isAccepted);
      const delivered = status ? 'yes' : error?.delivered;
      if (delivered === undefined) log.find('lost', workflowId, 'has no outcome');
      const isKept = server.latest(workflowId)?.code.prompt === prompt;
      if (isKept && error?.message.includes('no longer keeps')) log.find('lies', workflowId, 'is there');
      // A cancel that comes too early for a follow-up is repeated.
      const lastMs = cancelledAtMs + (has.size > 0 ? 120_000 : 15_000);
      const isLate = batch.state.cancelled && arrived.some(({ atMs }) => atMs > lastMs);
      if (isLate) log.find('late', workflowId, 'was sent after the cancel');
      const isLie = arrived.length > 0 ? delivered === 'no' : delivered === 'yes';
      if (isLie) log.find('lies', workflowId, prompt, JSON.stringify(status ?? error), `${arrived.length} arrived`);
    }
  }

  /** @param isDisturbed after a reset, more may be open */
  judge(isDisturbed: boolean): void {
    const { service, log } = this.stage;
    if (!this.isOver) log.find('lost', 'a batch or a retry of it does not end');
    for (const { workflowId, atMs } of service.arrivals) {
      const [, id = '', index = -1] = /([^/]+):(\d+)$/.exec(workflowId) ?? [];
      const { canary = Infinity, proceededAtMs = 0 } = this.started.get(id) ?? {};
      if (Number(index) >= canary && atMs < proceededAtMs) log.find('over', workflowId, 'went before the canary');
    }
    const isOver = !isDisturbed && this.#mostOpen > this.#maxOpen;
    if (isOver) log.find('over', `${this.#mostOpen} open, at most ${this.#maxOpen}`);
  }

  #startItem(batchId: string, workflowId: string, input: FollowUpInput, hash: string): boolean {
    const { server, callers, world } = this.stage;
    if (server.latest(workflowId)) return false;
    const settings = followUpInputSchema.parse(input);
    callers.push({ workflowId, startsAtMs: world.nowMs, settings, isResendAllowed: false });
    server.start(workflowId, { ...followUp(settings), kept: { memo: { [ITEM_HASH_MEMO]: hash }, batchId } });
    const isOpen = (id: string) => server.running(id)?.code.kept?.batchId !== undefined;
    this.#mostOpen = Math.max(this.#mostOpen, callers.filter((each) => isOpen(each.workflowId)).length);
    return true;
  }

  /** The shipped flow of a part. */
  #part(input: PartInput, batchRunId: string): Code {
    const begin = (run: Run) => {
      const { later, signal, ended, find, ...port } = portOf(run, () => flow.wake());
      const flow: PartFlow = new PartFlow(input, batchRunId, {
        ...port,
        findItems: find('findItems'),
        reportToBatch: (report, runId) => signal(idOf(input.batchId), 'report', report, runId),
        wasReset: () => run.runId !== run.originalRunId && run.patched('waits-for-starts'),
        cancelFollowUp: (workflowId) => signal(workflowId, 'cancel'),
        runFollowUp: async ({ workflowId, input: item, hash }) =>
          (await later(() => this.#startItem(input.batchId, workflowId, item, hash), 10_000))
            ? ended(workflowId)
            : 'used',
      });
      run.flow = flow;
      const order = (given: unknown) => receive(sentOrderSchema, given, (each) => flow.receive(each));
      return { main: () => flow.run(), handlers: { order, cancel: () => flow.refuseCancel() } };
    };
    return { begin, kept: { input } };
  }

  /** The shipped flow of a batch. */
  #batch(start: BatchStart, items: readonly unknown[]): Code {
    const { server } = this.stage;
    const begin = (run: Run) => {
      const { later, signal, ended, find, ...port } = portOf(run, () => flow.wake());
      const rules = run.before
        ? new Batch(structuredClone(run.before) as BatchState, this.#maxPartItems)
        : Batch.create({ ...start, startedAtMs: run.startedAtMs }, items, this.#maxPartItems);
      const startPart = (input: PartInput) => {
        const workflowId = partWorkflowId(input);
        if (server.running(workflowId) || (input.again === undefined && server.latest(workflowId))) return false;
        server.start(workflowId, this.#part(structuredClone(input), run.runId));
        return true;
      };
      const flow: BatchFlow = new BatchFlow(rules, {
        ...port,
        isReplying: () => false,
        isNextRunDue: () => run.isLong(this.#mostEvents),
        continueAsNew: (state) => Promise.resolve(new ContinueAsNew(JSON.parse(JSON.stringify(state))) as never),
        findPart: find('findPart'),
        sendOrder: (workflowId, order) => signal(workflowId, 'order', { ...order, batchRunId: run.runId }),
        startPart: async (input) =>
          (await later(() => startPart(input))) ? { ended: ended(partWorkflowId(input)) } : 'used',
      });
      run.flow = flow;
      const add = (input: unknown) => {
        const { more, offset } = input as { more: unknown[]; offset: number };
        const updateId = `add ${offset} ${more.length}`;
        if (!rules.issueWith(more, offset, updateId)) void flow.add(more, offset, updateId);
      };
      const handlers = {
        add,
        seal: (total: unknown) => total === rules.state.total && flow.change(() => rules.seal()),
        cancel: () => flow.change(() => rules.cancel()),
        report: (report: unknown) => receive(partReportSchema, report, (each) => flow.receive(each)),
        proceed: () => rules.canProceed && flow.change(() => rules.proceed()),
      };
      return { main: () => flow.run(), handlers };
    };
    return { begin, kept: { memo: this.started.get(start.batchId)!.memo } };
  }
}

/** What both flows have of a run. */
function portOf(run: Run, wake: () => void) {
  const { server, nowMs, condition } = run;
  const { world } = server;
  const { between, pick } = world.chance;
  let alarmAtMs = Infinity;
  /** Does `what` after a while: on a busy server, after seconds. */
  const later = async <T>(what: () => T, longestMs = 3_000): Promise<T> => {
    const begin = (id: number) =>
      world.after(between(2, pick([200, longestMs])), () => void server.deliver(run, { id, value: what() }));
    return (await run.call(begin).result)?.value as T;
  };
  const signal = (workflowId: string, name: string, input?: unknown, runId?: string) =>
    later(() => {
      world.note(name, workflowId, JSON.stringify(input)?.slice(0, 400), runId ?? '');
      const isThere = runId === undefined || server.running(workflowId)?.runId === runId;
      return isThere && server.deliverByName(workflowId, name, input);
    });
  const ended = async (workflowId: string) =>
    (await run.call((id) => server.watchEnd(run, id, workflowId)).result)?.value as never;
  const find = (name: string) => async (input: unknown) =>
    (await run.activity(name, input, FIND).result)?.value as never;
  const wakeAt: FlowPort['wakeAt'] = (atMs) => {
    if (atMs >= alarmAtMs) return;
    alarmAtMs = atMs;
    void condition(() => false, Math.max(1, Math.ceil(atMs - nowMs()))).then(() => {
      if (alarmAtMs !== atMs) return;
      alarmAtMs = Infinity;
      wake();
    });
  };
  const patched = (id: string) => run.patched(id);
  return { later, signal, ended, find, wakeAt, patched, nowMs, condition, show: () => undefined };
}
