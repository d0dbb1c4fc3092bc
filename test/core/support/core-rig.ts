import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Worker, type WorkerOptions } from '@temporalio/worker';
import { createAgentJobsClient } from '../../../src/agent-jobs/index.js';
import { budgetTaskQueue } from '../../../src/contract/index.js';
import { createActivities } from '../../../src/activities/index.js';
import { createBudgets } from '../../../src/activities/budgets.js';
import { budgetStatusQuery } from '../../../src/contract/budget.js';
import { createLogger } from '../../../src/logging.js';
import { type MessageHook, type SimulatorOptions, startSimulator } from '../../../src/simulator/index.js';
import { ensureSearchAttributes } from '../../../src/temporal/search-attributes.js';
import { installRuntime } from '../../../src/worker/runtime.js';
import { builtBundle } from '../../support/workflow-bundles.js';

export interface CoreOptions {
  address: string;
  simulator?: SimulatorOptions;
  /** Called at each step of a message to the simulated service. */
  onMessage?: MessageHook;
  budget?: { limit?: number; windowMs?: number; marginMs?: number; reserve?: number };
  sendTimeoutMs?: number;
  leaseMs?: number;
  drainMs?: number;
  maxWatches?: number;
  /** Called before a budget is told of the end of a follow-up. */
  onEnd?: (workflowId: string) => Promise<void>;
  maxCachedWorkflows?: number;
  /** Of the worker for follow-ups. */
  worker?: Partial<WorkerOptions>;
}

/** The new core on a real Temporal server, with a simulated service. */
export async function startCore(options: CoreOptions) {
  const { address, sendTimeoutMs = 3_000, leaseMs = 15_000, drainMs = 2_000, maxWatches = 1_000 } = options;
  await installRuntime(createLogger({ level: 'error', format: 'json' }));
  const simulator = await startSimulator({ turn: { minMs: 300, maxMs: 600 }, ...options.simulator }, options.onMessage);
  const taskQueue = `core-${randomUUID()}`;
  const connection = await Connection.connect({ address });
  const client = new Client({ connection });
  await ensureSearchAttributes(connection, 'default');
  const workflowBundle = builtBundle;
  const settings = { limit: 100, windowMs: 3_600_000, marginMs: 200, reserve: 0, ...options.budget };
  const agentJobs = createAgentJobsClient({
    baseUrl: simulator.baseUrl,
    keys: { forProject: () => Promise.resolve(simulator.apiKey) },
    getTimeoutMs: 5_000,
    sendTimeoutMs,
  });
  const native = await NativeConnection.connect({ address });

  async function startWorkers() {
    const handBack = new AbortController();
    const times = {
      sendTimeoutMs,
      leaseMs,
      drainMs,
      marginMs: settings.marginMs,
      maxWatches,
    };
    const calls = createBudgets(client, { taskQueue, settings });
    const tell: typeof calls.tell = async (projectId, event) => {
      if (event.kind === 'end') await options.onEnd?.(event.workflowId);
      await calls.tell(projectId, event);
    };
    const budgets = { ...calls, tell };
    // All run on one host.
    const marginMs = 0;
    const bounds = { marginMs, maxLimit: 1_000, handBack: handBack.signal, linksArePrivate: false };
    const activities = createActivities({ agentJobs, budgets, ...times, ...bounds });
    const shared = {
      connection: native,
      workflowBundle,
      activities,
      maxCachedWorkflows: options.maxCachedWorkflows ?? 1_000,
    };
    const workers = await Promise.all([
      Worker.create({ ...shared, taskQueue, maxConcurrentActivityTaskExecutions: 2_000, ...options.worker }),
      Worker.create({ ...shared, taskQueue: budgetTaskQueue(taskQueue) }),
    ]);
    const running = Promise.all(workers.map((worker) => worker.run()));
    return async () => {
      handBack.abort();
      for (const worker of workers) worker.shutdown();
      await running;
    };
  }

  let stopWorkers = await startWorkers();
  return {
    simulator,
    client,
    taskQueue,
    settings,
    /** Starts a follow-up of a new key. */
    start: (input: { projectId: string; jobId: string; [field: string]: unknown }, key: string = randomUUID()) =>
      client.workflow.start('followUp', {
        workflowId: `follow-up/${input.projectId}/${input.jobId}/${key}`,
        taskQueue,
        args: [{ prompt: `message ${key}`, ...input }],
        workflowIdReusePolicy: 'ALLOW_DUPLICATE',
      }),
    budget: (projectId: string) => client.workflow.getHandle(`project-budget/${projectId}`),
    status: (projectId: string) =>
      client.workflow.getHandle(`project-budget/${projectId}`).query(budgetStatusQuery, Date.now()),
    async restartWorkers() {
      await stopWorkers();
      stopWorkers = await startWorkers();
    },
    async stop() {
      await stopWorkers();
      await agentJobs.close();
      await native.close();
      await connection.close();
      await simulator.close();
    },
  };
}

export type Core = Awaited<ReturnType<typeof startCore>>;

/** Polls often enough for tests. */
export const FAST = { poll: { initialInterval: '200ms', maxInterval: '500ms' }, settleTime: '2s' } as const;
