import type { Client } from '@temporalio/client';
import { FollowUpClient, type StartInput } from '../../src/client/index.js';
import { LEASE_SLACK_MS } from '../../src/config/index.js';
import { followUpWorkflowId } from '../../src/contract/index.js';
import type { Random } from '../../src/simulator/random.js';
import type { FollowUpRecord, TimeSpan } from './checker.js';
import { awaitEnding, readSends, whereItStands } from './endings.js';
import { promptOf } from './ledger-file.js';
import { ORACLE_API_KEY, type Oracle } from './oracle-process.js';
import { startWorkerProcess, type FaultPlan, type WorkerProcess } from './worker-process.js';

/** The budget of a project. */
export interface Budget {
  limit: number;
  windowMs: number;
}

/** Small, so that the limit matters and recovery takes seconds. */
const DEFAULT_BUDGET: Budget = { limit: 24, windowMs: 10_000 };

/** Far longer than a worker stalls on a busy machine, because a send that times out leaves its delivery unknown. */
const SEND_TIMEOUT_MS = 20_000;

/** From the start of a send until the server gives it to another worker. */
export const SEND_START_TO_CLOSE_MS = SEND_TIMEOUT_MS + LEASE_SLACK_MS;

/** From a worker's death to the end of all its work on a busy machine: the send, the retries and the slots. */
export const RECOVERY_MS = SEND_START_TO_CLOSE_MS + 300_000;

/** How many follow-ups are awaited at once. */
const WAITING_AT_ONCE = 25;

/** All kinds of jobs: some show that a message was delivered, and some never do. */
const JOB_KINDS = ['job', 'same', 'nopr', 'fail'] as const;

/** Options of {@link Lane}. */
export interface LaneOptions {
  /** Unique within the run, and among runs on the same server. */
  name: string;
  /** Client for the harness's own calls. */
  client: Client;
  /** Address of Temporal for the worker, `host:port`. */
  address: string;
  oracle: Oracle;
  random: Random;
  /** @default 24 messages in 10 s */
  budget?: Budget | undefined;
  /** Further settings of the workers. */
  env?: Readonly<Record<string, string>>;
}

/** One project with a task queue of its own, its workers, its follow-ups and their faults. */
export class Lane {
  readonly projectId: string;
  readonly taskQueue: string;
  readonly followUps: FollowUpClient;
  readonly records: FollowUpRecord[] = [];
  readonly faults: TimeSpan[] = [];
  readonly budget: Budget;
  readonly #options: LaneOptions;
  readonly #workers: WorkerProcess[] = [];

  constructor(options: LaneOptions) {
    this.budget = options.budget ?? DEFAULT_BUDGET;
    this.#options = options;
    this.projectId = options.name;
    this.taskQueue = `chaos-${options.name}`;
    this.followUps = new FollowUpClient({ client: options.client, taskQueue: this.taskQueue });
  }

  get client(): Client {
    return this.#options.client;
  }

  get oracle(): Oracle {
    return this.#options.oracle;
  }

  get random(): Random {
    return this.#options.random;
  }

  /** Starts a worker of this lane. */
  startWorker(plan?: FaultPlan): WorkerProcess {
    const env = {
      TEMPORAL_ADDRESS: this.#options.address,
      AGENT_JOBS_BASE_URL: this.oracle.baseUrl,
      AGENT_JOBS_API_KEY: ORACLE_API_KEY,
      FOLLOW_UP_TASK_QUEUE: this.taskQueue,
      FOLLOW_UP_STATUS_ADDRESS: 'off',
      FOLLOW_UP_LOG_LEVEL: 'info',
      FOLLOW_UP_SEND_TIMEOUT: `${SEND_TIMEOUT_MS}ms`,
      FOLLOW_UP_DRAIN: '0s',
      FOLLOW_UP_MARGIN: '200ms',
      FOLLOW_UP_BUDGET_LIMIT: String(this.budget.limit),
      FOLLOW_UP_BUDGET_WINDOW: `${this.budget.windowMs}ms`,
      ...this.#options.env,
    };
    const worker = startWorkerProcess(env, plan);
    this.#workers.push(worker);
    return worker;
  }

  /** The end of each worker's log. */
  workerLogs(): string[] {
    return this.#workers.map((worker) => worker.log());
  }

  /** Starts follow-ups, each to a job of its own. Tries again while Temporal is down. */
  async start(count: number, input: Partial<StartInput> = {}): Promise<FollowUpRecord[]> {
    const started: FollowUpRecord[] = [];
    for (let each = 0; each < count; each++) {
      const number = this.records.length + 1;
      const kind = JOB_KINDS[this.random.between(0, JOB_KINDS.length - 1)] ?? 'job';
      const jobId = `${kind}-${number}`;
      const marker = `${this.projectId}:${number}`;
      const key = `key-${number}`;
      const workflowId = followUpWorkflowId({ projectId: this.projectId, jobId, key });
      const record: FollowUpRecord = { marker, projectId: this.projectId, workflowId };
      this.records.push(record);
      started.push(record);
      await this.#startOne({
        projectId: this.projectId,
        jobId,
        key,
        prompt: promptOf(marker),
        poll: { initialInterval: '200ms', maxInterval: '2s' },
        settleTime: '3s',
        prLinkGrace: '0s',
        ...input,
      });
    }
    return started;
  }

  /** Notes a fault that may leave the delivery of messages under way unknown. */
  noteFault(span: Partial<TimeSpan> = {}): void {
    const nowMs = Date.now();
    this.faults.push({ fromMs: span.fromMs ?? nowMs, toMs: span.toMs ?? nowMs });
  }

  /** Waits for the end of every follow-up whose ending is not known yet. */
  async collect(untilMs: number): Promise<void> {
    const open = [...this.records];
    const wait = async (): Promise<void> => {
      for (let record = open.shift(); record; record = open.shift()) {
        await this.takeEnding(record, untilMs);
      }
    };
    await Promise.all(Array.from({ length: WAITING_AT_ONCE }, wait));
  }

  /** Waits for the end of a follow-up, unless its ending is already known. */
  async takeEnding(record: FollowUpRecord, untilMs: number): Promise<void> {
    if (record.ending) return;
    record.ending = await awaitEnding(this.client, record.workflowId, untilMs);
    if (!record.ending) record.standsAt = await whereItStands(this.client, record.workflowId);
    if (record.ending?.delivered === 'unknown') record.sends = await readSends(this.client, record.workflowId);
  }

  async #startOne(input: StartInput): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.followUps.start(input);
        return;
      } catch (error) {
        if (attempt === 60) throw error;
        await new Promise((resolve) => setTimeout(resolve, 500));
      }
    }
  }
}
