import { type Client, WorkflowFailedError } from '@temporalio/client';
import {
  ApplicationFailure,
  CancelledFailure,
  defaultPayloadConverter,
  TerminatedFailure,
  WorkflowNotFoundError,
} from '@temporalio/common';
import { BatchFlow } from '../../src/batch/batch-flow.js';
import { PartFlow } from '../../src/batch/part-flow.js';
import type { BatchHandle } from '../../src/client/batch.js';
import { planRetry, type RetryPlan } from '../../src/client/batch-retry.js';
import { RefusedError } from '../../src/client/errors.js';
import { ITEM_HASH_MEMO } from '../../src/contract/batch-protocol.js';
import {
  type BatchItem,
  followUpBatchWorkflowId,
  type FollowUpInput,
  SearchAttribute,
} from '../../src/contract/index.js';
import { batch, BatchServer, error } from './batch-world.js';
import type { Run } from './runs.js';
import type { Report } from './seed.js';
import type { Verdict } from './verdicts.js';
import { START_MS, World } from './world.js';

const FAULTS_MS = 1_200_000;
const END_MS = 48 * 3_600_000;

/** Worlds of one batch, its parts and its retries. */
export const batchProfiles = ['calm-batch', 'batch'] as const;
type BatchProfile = (typeof batchProfiles)[number];
export const isBatchProfile = (name: string): name is BatchProfile => batchProfiles.some((known) => known === name);

/** Runs the world of one batch, and of its retries, until all is over. */
export async function runBatchSeed(
  profile: BatchProfile,
  seed: number,
  print?: (line: string) => void,
): Promise<Report> {
  const world = new World(seed, print);
  const stage = new Stage(world, profile === 'calm-batch');
  try {
    await world.run(START_MS + END_MS, () => stage.isOver);
    if (!stage.isOver) stage.find('lost', `the batch or a retry of it does not end: ${stage.standing()}`);
  } catch (thrown) {
    stage.find('crash', String((thrown as Error).stack));
  }
  stage.judge();
  return { found: stage.found, ends: stage.ends, trace: world.trace >>> 0 };
}

interface Started {
  id: string;
  items: FollowUpInput[];
  canary?: number;
  memo: Record<string, unknown>;
  proceededAtMs: number;
  cancelledAtMs?: number;
}

class Stage {
  readonly found: Report['found'] = [];
  readonly ends: string[] = [];
  readonly server: BatchServer;
  isOver = false;
  readonly #batches = new Map<string, Started>();
  /** Follow-ups that were reset after their end: what their batch knew of them is no longer true. */
  readonly #restarted = new Set<string>();
  readonly #maxOpen: number;
  /** A cancel that comes too early for a follow-up is repeated. */
  readonly #mostAfterCancelMs: number;
  #isDisturbed = false;
  #wasUsedAgain = false;

  constructor(
    private readonly world: World,
    isCalm: boolean,
  ) {
    const { chance } = world;
    const isHealed = () => isCalm || world.nowMs > START_MS + FAULTS_MS;
    this.#maxOpen = chance.whole(1, 8);
    this.server = new BatchServer(world, {
      mostPartItems: chance.whole(2, 12),
      mostEvents: chance.pick([15, 60, 1_000]),
      faults: () => (isHealed() ? { undone: 0, lost: 0 } : { undone: 0.1, lost: 0.1 }),
    });
    const canary = chance.happens(0.4) ? chance.whole(1, 4) : undefined;
    const maxFailures = chance.happens(0.3) ? chance.pick([0, 1, '20%']) : undefined;
    const items = this.#items('b', chance.whole(1, 30));
    this.#start({ id: 'b', items, canary, memo: {} }, maxFailures);
    if (!isCalm) this.#strikeAgain();
    else if (chance.happens(0.3)) world.after(chance.between(100, 60_000), () => this.#cancel('b'));
    this.#mostAfterCancelMs = isCalm ? 15_000 : 120_000;
    this.#watch();
  }

  find(verdict: Verdict, what: string): void {
    this.found.push({ verdict, what });
  }

  #items(name: string, count: number): FollowUpInput[] {
    const { chance } = this.world;
    return Array.from({ length: count }, (_, index) => ({
      projectId: chance.pick(['p', 'q']),
      jobId: chance.happens(0.2) ? 'same' : `job-${index}`,
      prompt: `${name}#${index}`,
      lane: 'batch' as const,
    }));
  }

  #start(
    { id, items, canary, memo }: Omit<Started, 'proceededAtMs' | 'canary'> & { canary: number | undefined },
    maxFailures?: number | string,
  ): void {
    const { world, server } = this;
    const { chance } = world;
    this.#batches.set(id, { id, items, ...(canary !== undefined && { canary }), memo, proceededAtMs: Infinity });
    const start = { batchId: id, maxOpen: this.#maxOpen, template: { lane: 'batch' }, startedAtMs: 0 };
    const brake = { ...(canary !== undefined && { canary }), ...(maxFailures !== undefined && { maxFailures }) };
    const inPieces = chance.happens(0.4);
    const first = inPieces ? chance.whole(0, items.length) : items.length;
    const workflowId = followUpBatchWorkflowId({ batchId: id });
    server.start(workflowId, batch({ ...start, ...brake, sealed: !inPieces }, items.slice(0, first)));
    if (!inPieces) return;
    // Whoever hands the rest over repeats it until it has arrived.
    const hand = () => {
      world.after(chance.between(500, 20_000), hand);
      const { total = first, sealed = false } = this.flowOf(id)?.batch.status() ?? {};
      if (sealed || this.#batches.get(id)?.items !== items) return;
      const more = items.slice(total, total + chance.whole(1, 8));
      if (more.length > 0) server.tell(workflowId, 'add', { more, offset: total });
      else server.tell(workflowId, 'seal');
    };
    world.after(1_000, hand);
  }

  #cancel(id: string): void {
    const cancelled = this.#batches.get(id);
    if (cancelled && this.server.tell(followUpBatchWorkflowId({ batchId: id }), 'cancel')) {
      cancelled.cancelledAtMs = this.world.nowMs;
    }
  }

  flowOf(id: string): BatchFlow | undefined {
    const run = this.server.latest(followUpBatchWorkflowId({ batchId: id }));
    const flow = run && this.server.flows.get(run);
    return flow instanceof BatchFlow ? flow : undefined;
  }

  /** An operator looks now and then: lets held batches go on, and retries what has ended. */
  #watch(): void {
    const { world, server } = this;
    world.after(world.chance.between(60_000, 240_000), () => {
      this.#watch();
      for (const each of this.#batches.values()) {
        const { hold } = this.flowOf(each.id)?.batch.status() ?? {};
        if (!hold || !server.tell(followUpBatchWorkflowId({ batchId: each.id }), 'proceed')) continue;
        world.note('proceed', each.id, hold.reason);
        each.proceededAtMs = Math.min(each.proceededAtMs, world.nowMs);
      }
      const isRunning = [...this.#batches.keys()].some((id) =>
        server.running(followUpBatchWorkflowId({ batchId: id })),
      );
      return !isRunning && world.nowMs > START_MS + FAULTS_MS ? this.#retry() : undefined;
    });
  }

  async #retry(): Promise<void> {
    for (const id of this.#batches.keys()) this.#check(id);
    const root = [...this.#batches.keys()].find((id) => !id.includes('-retry-'))!;
    if (
      this.#batches.size > 3 ||
      this.server.latest(followUpBatchWorkflowId({ batchId: root }))?.status !== 'completed'
    ) {
      this.isOver = true;
      return;
    }
    // Two people at the same time.
    const plans: RetryPlan[] = [];
    for (const only of ['failed', undefined] as const) {
      const asked = this.world.chance.pick([...this.#batches.keys()].filter((id) => id.startsWith(root)));
      const plan = await planRetry(this.client, (id) => this.handle(id), asked, { only }).catch((thrown: unknown) => {
        if (!RefusedError.is(thrown, 'NothingToRetry')) throw thrown;
      });
      if (plan && plan.unknown === 0) plans.push(plan);
    }
    if (plans.length === 0) this.isOver = true;
    for (const { input, memo } of plans) {
      if (this.#batches.has(input.id) || !('items' in input)) continue;
      const items = input.items;
      this.#start({ id: input.id, items, canary: input.canary, memo }, input.maxFailures);
    }
  }

  #strikeAgain(): void {
    const { world } = this;
    world.after(world.chance.between(3_000, 90_000), async () => {
      if (world.nowMs > START_MS + FAULTS_MS) return;
      await this.#strike();
      this.#strikeAgain();
    });
  }

  async #strike(): Promise<void> {
    const { server, world } = this;
    const { chance } = world;
    const runs = [...server.runs.values()].map((all) => all.at(-1)!);
    const batchRuns = runs.filter((run) => !run.workflowId.slice('follow-up-batch/'.length).includes('/'));
    // Between a delete and the next batch with that id.
    if (batchRuns.length === 0) return;
    const batchRun = chance.pick(batchRuns);
    const parts = runs.filter((run) => run !== batchRun && run.workflowId.startsWith(`${batchRun.workflowId}/`));
    const part = parts.length > 0 ? chance.pick(parts) : undefined;
    const followUps = [...server.followUps.values()];
    const followUp = followUps.length > 0 ? chance.pick(followUps) : undefined;
    const anyTask = (run: Run) => chance.whole(0, run.tasks.length);
    const what = chance.pick(['part', 'part', 'batch', 'cut', 'follow-up', 'terminate', 'revive', 'cancel', 'again']);
    this.#isDisturbed ||= what !== 'follow-up';
    if (what === 'part' && part) return server.reset(part, anyTask(part));
    if (what === 'batch') return server.reset(batchRun, anyTask(batchRun));
    if (what === 'cut' && part?.status === 'running' && chance.happens(0.5)) {
      world.note('terminate', part.workflowId);
      server.close(part, 'terminated');
    }
    if (what === 'follow-up' && followUp && followUp.outcome?.error?.type !== 'DeliveryUnknown') {
      if (followUp.outcome) this.#restarted.add(followUp.workflowId);
      server.resetFollowUp(followUp);
    }
    if (what === 'terminate' && followUp && !followUp.outcome) {
      server.endFollowUp(followUp, error('Terminated', followUp.wasSent ? 'yes' : 'unknown'));
    }
    if (what === 'cancel' && chance.happens(0.5)) {
      for (const id of this.#batches.keys()) if (batchRun.workflowId.endsWith(`/${id}`)) this.#cancel(id);
    }
    if (what === 'revive' && batchRun.status === 'running') {
      server.close(batchRun, 'terminated');
      // A run that was deleted meanwhile cannot be reset.
      const isKept = () => server.runs.get(batchRun.workflowId)?.includes(batchRun);
      world.after(chance.between(0, 30_000), () => isKept() && server.reset(batchRun, batchRun.tasks.length));
    }
    if (what === 'again' && chance.happens(0.2) && !this.#wasUsedAgain) {
      // Its parts go on, and another list gets the same id.
      world.note('the id is used again');
      server.delete(followUpBatchWorkflowId({ batchId: 'b' }));
      const { items: old } = this.#batches.get('b')!;
      this.#batches.delete('b');
      const items = chance.happens(0.3) ? old : this.#items('c', chance.whole(1, 30));
      this.#wasUsedAgain = true;
      world.after(chance.between(0, 5_000), () => this.#start({ id: 'b', items, canary: undefined, memo: {} }));
    }
  }

  /** The items of a batch, as its flow and those of its parts tell them. */
  itemsOf(id: string): BatchItem[] {
    const flow = this.flowOf(id);
    if (!flow) return [];
    const found = new Map<number, BatchItem>();
    for (const part of flow.batch.state.parts.keys()) {
      const run = this.server.latest(flow.batch.idOf(part));
      const held = run && this.server.flows.get(run);
      if (!(held instanceof PartFlow)) continue;
      for (const item of held.page({ offset: held.input.first, limit: 500 }).items) found.set(item.index, item);
    }
    for (const item of flow.batch.page(0, 500).items) found.set(item.index, item);
    return [...found.values()].sort((one, other) => one.index - other.index);
  }

  /** What still runs. */
  standing(): string {
    const running = [...this.server.runs.keys()].filter((id) => this.server.running(id));
    const open = [...this.server.followUps.values()].filter(({ outcome }) => !outcome).map((each) => each.workflowId);
    return JSON.stringify({ running, open, batch: this.flowOf('b')?.batch.state.parts });
  }

  /** Compares what a batch says with what arrived. */
  #check(id: string): void {
    const { items } = this.#batches.get(id)!;
    const flow = this.flowOf(id);
    if (!flow || this.server.latest(followUpBatchWorkflowId({ batchId: id }))?.status !== 'completed') return;
    const { total, completed, archived, failed, errors } = flow.batch.result();
    if (total !== items.length && !flow.batch.state.cancelled)
      this.find('lost', `${id}: ${total} of ${items.length} items`);
    if (total !== completed + archived + failed + errors) this.find('lost', `${id}: the counts are not complete`);
    for (const { index, workflowId, status, error: told } of this.itemsOf(id)) {
      if (this.#restarted.has(workflowId)) continue;
      const { prompt = '' } = items[index] ?? {};
      const arrived = this.server.arrivals.filter((each) => each.workflowId === workflowId && each.prompt === prompt);
      const delivered = status ? 'yes' : told?.delivered;
      this.ends.push(status ?? told?.type ?? 'none');
      if (delivered === undefined) this.find('lost', `${workflowId} has no outcome`);
      const isKept = this.server.followUps.get(workflowId)?.input.prompt === prompt;
      if (isKept && told?.message.includes('no longer keeps')) this.find('lies', `${workflowId} is there`);
      const { cancelledAtMs = Infinity } = this.#batches.get(id)!;
      const isLate = arrived.some(({ atMs }) => atMs > cancelledAtMs + this.#mostAfterCancelMs);
      if (flow.batch.state.cancelled && isLate) this.find('late', `${workflowId} was sent after the cancel`);
      if ((delivered === 'yes' && arrived.length === 0) || (delivered === 'no' && arrived.length > 0)) {
        this.find('lies', `${workflowId} ${prompt}: ${JSON.stringify(status ?? told)}, ${arrived.length} arrived`);
      }
    }
  }

  judge(): void {
    const { server } = this;
    for (const crash of server.crashes) this.find('crash', crash);
    const counts = new Map<string, number>();
    for (const { prompt } of server.arrivals) counts.set(prompt, (counts.get(prompt) ?? 0) + 1);
    for (const [prompt, count] of counts) if (count > 1) this.find('doubled', `${prompt} arrived ${count} times`);
    for (const { id, items, canary = Infinity, proceededAtMs } of this.#batches.values()) {
      const early = server.arrivals.filter(({ workflowId, atMs }) => {
        const key = new RegExp(`/${id}:(\\d+)$`).exec(workflowId)?.[1];
        return key !== undefined && Number(key) >= canary && atMs < proceededAtMs;
      });
      if (early.length > 0 && items.length > canary)
        this.find('over', `${early[0]!.workflowId} went before the canary`);
    }
    if (!this.#isDisturbed && server.mostOpen > this.#maxOpen) {
      this.find('over', `${server.mostOpen} open, at most ${this.#maxOpen}`);
    }
  }

  /** What the shipped plan of a retry asks of a batch. */
  handle(id: string): BatchHandle {
    const { server } = this;
    const run = () => server.latest(followUpBatchWorkflowId({ batchId: id }));
    const batches = this.#batches;
    const itemsOf = () => this.itemsOf(id);
    const flow = () => this.flowOf(id)!;
    const handle = {
      async describe() {
        const { status } = run() ?? {};
        if (status === undefined) throw new RefusedError('BatchNotFound', id);
        const memo = batches.get(id)?.memo as { retryOf?: string; indexes: string } | undefined;
        return { status: status === 'running' ? 'running' : 'completed', ...(memo?.retryOf && { retry: memo }) };
      },
      async status() {
        return flow().batch.status();
      },
      async *list() {
        yield* itemsOf();
      },
      async parts() {
        return [...flow().batch.state.parts.keys()].map((part) => flow().batch.idOf(part));
      },
    };
    return handle as unknown as BatchHandle;
  }

  /** What the shipped plan of a retry asks of Temporal. */
  get client(): Client {
    const { server } = this;
    const getHandle = (workflowId: string) => ({
      async describe() {
        const followUp = server.followUps.get(workflowId);
        if (!followUp) throw new WorkflowNotFoundError('not found', workflowId, undefined);
        const { batchId, hash, outcome } = followUp;
        const attributes = new Map<unknown, unknown>([[SearchAttribute.batchId, batchId]]);
        if (outcome?.error?.delivered === 'yes') attributes.set(SearchAttribute.state, 'polling');
        const name = outcome ? 'COMPLETED' : 'RUNNING';
        return { status: { name }, memo: { [ITEM_HASH_MEMO]: hash }, typedSearchAttributes: attributes };
      },
      async result() {
        const { outcome, input } = server.followUps.get(workflowId)!;
        const { projectId, jobId } = input;
        const at = new Date(START_MS).toISOString();
        const result = { projectId, jobId, prLink: null, prLinkChanged: false, delivery: 'sent', observedActive: true };
        if (outcome?.status)
          return { ...result, status: outcome.status, sentAt: at, finishedAt: at, polls: 1, job: {} };
        const { type, delivered } = outcome!.error!;
        const cause =
          type === 'Terminated'
            ? new TerminatedFailure(type)
            : type === 'Cancelled' && delivered === 'no'
              ? new CancelledFailure(type)
              : ApplicationFailure.create({ type, details: [{ delivered }] });
        throw new WorkflowFailedError(type, cause, undefined);
      },
    });
    return {
      options: {
        namespace: 'default',
        loadedDataConverter: { payloadCodecs: [], payloadConverter: defaultPayloadConverter },
      },
      withDeadline: (_: number, call: () => unknown) => call(),
      workflow: { getHandle },
      workflowService: {
        async getWorkflowExecutionHistory({ execution }: { execution: { workflowId: string } }) {
          const run = server.latest(execution.workflowId);
          const flow = run && server.flows.get(run);
          if (!(flow instanceof PartFlow))
            throw new WorkflowNotFoundError('not found', execution.workflowId, undefined);
          const payloads = [defaultPayloadConverter.toPayload(flow.input)];
          return { history: { events: [{ workflowExecutionStartedEventAttributes: { input: { payloads } } }] } };
        },
      },
    } as unknown as Client;
  }
}
