import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { type BatchHandle, FollowUpClient, FollowUpFailedError } from '../../src/client/index.js';
import { type BatchItem, followUpWorkflowId, parseFollowUpWorkflowId } from '../../src/contract/index.js';
import type { Random } from '../../src/simulator/random.js';
import type { End, FollowUpRecord, TimeSpan } from './checker.js';
import { readSends, whereItStands } from './endings.js';
import { type FaultPlan, SEND_START_TO_CLOSE_MS, WorkerProcess } from './worker-process.js';

/** From the last fault to the end of all work on a busy machine: the send, the retries and the slots. */
export const RECOVERY_MS = SEND_START_TO_CLOSE_MS + 900_000;

const FAST = { poll: { initialInterval: '200ms', maxInterval: '2s' }, settleTime: '3s', prLinkGrace: '0s' };
/** Some jobs show that a message was delivered, and some never do. */
const JOB_KINDS = ['job', 'same', 'nopr', 'fail'] as const;
const ATTEMPTS = 60;
/** The target of all webhooks. */
export const RECEIVER = 'receiver';
const NOTIFY = { notify: [RECEIVER] };

/** One project with a task queue of its own, its workers, its follow-ups and their faults. */
export class Project {
  readonly followUps: FollowUpClient;
  readonly records: FollowUpRecord[] = [];
  /** What the batch says about its items. */
  readonly batchWords: FollowUpRecord[] = [];
  readonly faults: TimeSpan[] = [];
  readonly workers: WorkerProcess[] = [];
  #batch: BatchHandle | undefined;
  #isClosed = false;

  /** `id` also names the task queue. */
  constructor(
    readonly id: string,
    readonly client: Client,
    readonly random: Random,
    private readonly settings: Readonly<Record<string, string>>,
  ) {
    this.followUps = new FollowUpClient({ client, taskQueue: id });
  }

  startWorker(plan?: FaultPlan): WorkerProcess {
    const worker = new WorkerProcess({ FOLLOW_UP_TASK_QUEUE: this.id, ...this.settings }, plan);
    this.workers.push(worker);
    return worker;
  }

  /** Starts a worker, and starts it again whenever it ends, as a supervisor does. */
  keepWorker(): void {
    void this.startWorker().exited.then(() => {
      if (this.#isClosed) return;
      this.noteFault();
      this.keepWorker();
    });
  }

  /** Kills a worker. What it was sending is unknown. */
  async kill(worker: WorkerProcess | undefined): Promise<void> {
    await worker?.kill();
    this.noteFault();
  }

  /** Kills all workers, for good. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(this.workers.map((worker) => worker.kill()));
  }

  /** Notes a fault that may leave the delivery of messages under way unknown. */
  noteFault(span: Partial<TimeSpan> = {}): void {
    this.faults.push({ fromMs: Date.now(), toMs: Date.now(), ...span });
  }

  /** Starts follow-ups, each to a job of its own. Tries again while Temporal is down. */
  async start(count: number): Promise<FollowUpRecord[]> {
    const projectId = this.id;
    const first = this.records.length;
    for (let number = first; number < first + count; number++) {
      const [jobId, key] = [`${this.pick(JOB_KINDS)}-${number}`, `key-${number}`];
      const { marker } = this.recordOf(followUpWorkflowId({ projectId, jobId, key }));
      await insist(() => this.followUps.start({ projectId, jobId, key, prompt: marker, ...FAST, ...NOTIFY }));
    }
    return this.records.slice(first);
  }

  /** Starts the batch of this project. Its items are of the given projects. */
  async startBatch(count: number, maxOpen: number, projectIds: readonly string[]): Promise<BatchHandle> {
    const items = Array.from({ length: count }, (_, index) => {
      const [projectId = '', jobId] = [projectIds[index % projectIds.length], `item-${index}`];
      return { projectId, jobId, prompt: `${projectId}/${jobId}`, ...FAST, ...NOTIFY };
    });
    this.#batch = await this.followUps.startBatch({ id: this.id, items, maxOpen, ...NOTIFY });
    return this.#batch;
  }

  /** The record of a follow-up. It is made when it is first needed. */
  recordOf(workflowId: string): FollowUpRecord {
    const known = this.records.find((each) => each.workflowId === workflowId);
    if (known) return known;
    const { projectId, jobId } = parseFollowUpWorkflowId(workflowId) ?? {};
    const record = { marker: `${projectId}/${jobId}`, workflowId };
    this.records.push(record);
    return record;
  }

  /** Waits for the end of the batch and of every follow-up. */
  async collect(untilMs: number): Promise<void> {
    if (this.#batch) await this.#takeWordsOf(this.#batch, untilMs);
    for (const record of this.records) await this.takeEnding(record, untilMs);
  }

  /** What webhooks must report. None reports what was terminated. */
  get ends(): End[] {
    const ends = this.records.flatMap(({ workflowId, ending }) => (ending ? [{ workflowId, ...ending }] : []));
    const ofBatch = this.#batch && { workflowId: this.#batch.workflowId, how: 'batch.ended' };
    return [...ends.filter(({ how }) => how !== 'Terminated'), ...(ofBatch ? [ofBatch] : [])];
  }

  /** Waits for the end of a follow-up, unless its ending is already known. */
  async takeEnding(record: FollowUpRecord, untilMs: number): Promise<void> {
    const { workflowId, ending } = record;
    if (ending) return;
    try {
      const result = await this.followUps.handle(workflowId).result({ signal: deadline(untilMs) });
      record.ending = { how: result.status, delivered: result.delivery === 'assumed' ? 'unknown' : 'yes' };
    } catch (error) {
      if (error instanceof FollowUpFailedError) record.ending = { how: error.type, delivered: error.delivered };
      else record.standsAt = `${String(error)}: ${await whereItStands(this.client, workflowId)}`;
    }
    const { how, delivered } = record.ending ?? {};
    if (delivered === 'unknown' && how !== 'Terminated') record.sends = await readSends(this.client, workflowId);
  }

  /** Takes down what a batch says about each item. Each item that was started becomes a record. */
  async #takeWordsOf(batch: BatchHandle, untilMs: number): Promise<void> {
    await batch.result({ signal: deadline(untilMs) }).catch(() => undefined);
    const standsAt = await whereItStands(this.client, batch.workflowId);
    for (const { projectId, jobId, workflowId, status, error } of await itemsOf(batch)) {
      const how = status ?? error?.type;
      const ending = how && { how, delivered: error?.delivered ?? 'yes' };
      // The follow-up itself says why a delivery is unknown.
      this.batchWords.push({ marker: `${projectId}/${jobId}`, workflowId, standsAt, ...(ending && { ending }) });
      const description = this.client.workflow.getHandle(workflowId).describe();
      if (await description.catch(() => undefined)) this.recordOf(workflowId);
    }
  }

  pick<T>(from: readonly T[]): T {
    return from[this.random.between(0, from.length - 1)]!;
  }
}

/** An ended workflow answers after the deadline, too. */
const deadline = (untilMs: number) => AbortSignal.timeout(Math.max(5_000, untilMs - Date.now()));

/** Asks its workflows, which answer only while a worker runs. */
export const itemsOf = (batch: BatchHandle) =>
  insist(async () => {
    const items: BatchItem[] = [];
    for await (const item of batch.list()) items.push(item);
    return items;
  });

/** Tries again while it fails, for half a minute or more. */
export async function insist<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (attempt === ATTEMPTS) throw error;
      await delay(500);
    }
  }
}
