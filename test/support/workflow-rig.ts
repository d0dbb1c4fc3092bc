import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { noopMetricMeter } from '@temporalio/common';
import { NativeConnection, Worker } from '@temporalio/worker';
import { createActivities, createBudgetClient, createOwnRun } from '../../src/activities/index.js';
import type { AgentJobsClient } from '../../src/agent-jobs/index.js';
import {
  type BudgetStatus,
  budgetStatusQuery,
  budgetTaskQueue,
  type FollowUpInput,
  followUpWorkflowId,
  projectBudgetWorkflowId,
} from '../../src/contract/index.js';
import type { BudgetSettings } from '../../src/contract/protocol.js';
import { createLogger } from '../../src/logging.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { BudgetMetrics } from '../../src/worker/budget-metrics.js';
import { meterEnds } from '../../src/worker/metrics.js';
import { installRuntime } from '../../src/worker/runtime.js';
import type { followUp } from '../../src/workflows/index.js';
import { builtBundle } from './workflow-bundles.js';

/**
 * Installs Temporal's runtime so that it logs only errors, because some workflows fail on purpose. The runtime belongs
 * to the process, which test files share, and ends with its last connection. Call it before the first connection.
 */
export async function installQuietRuntime(): Promise<void> {
  await installRuntime(createLogger({ level: 'error', format: 'json' }));
}

/** Settings of {@link startWorkflowRig}. */
export interface WorkflowRigOptions {
  address: string;
  agentJobs: AgentJobsClient;
  budget?: Partial<BudgetSettings>;
  sendTimeoutMs?: number;
  leaseMs?: number;
  sendStartToCloseMs?: number;
  drainMs?: number;
  maxCachedWorkflows?: number;
  /** Called before an activity begins. If it throws, the attempt fails. */
  beforeActivity?: (activityType: string) => void;
  /** Called after an activity has ended. If it throws, the completion is lost. */
  afterActivity?: (activityType: string) => void;
}

/** Both workers on a running Temporal server, with their own task queue. */
export interface WorkflowRig {
  client: Client;
  taskQueue: string;
  /** Every follow-up that {@link start} started. */
  started: { workflowId: string }[];
  /** Starts a follow-up as any Temporal client would. `key` becomes part of its workflow id. */
  start(input: FollowUpInput, key?: string): ReturnType<Client['workflow']['start']>;
  budgetStatus(projectId: string): Promise<BudgetStatus>;
  stopWorkers(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts both workers in this process. */
export async function startWorkflowRig(options: WorkflowRigOptions): Promise<WorkflowRig> {
  const { address, agentJobs } = options;
  await installQuietRuntime();
  const namespace = 'default';
  const taskQueue = `follow-ups-${randomUUID()}`;
  const connection = await Connection.connect({ address });
  const acquireConnection = await Connection.connect({ address, interceptors: [] });
  const nativeConnection = await NativeConnection.connect({ address });
  await ensureSearchAttributes(connection, namespace);
  const sendTimeoutMs = options.sendTimeoutMs ?? 30_000;
  const leaseMs = options.leaseMs ?? sendTimeoutMs + 30_000;
  const settings = { limit: 100, windowMs: 3_600_000, reserve: 0, marginMs: 2_000, ...options.budget };
  const budget = createBudgetClient({ acquireConnection, connection, namespace, taskQueue, settings });
  const activities = createActivities({
    agentJobs,
    budget,
    ownRun: createOwnRun(new Client({ connection, namespace })),
    sendTimeoutMs,
    leaseMs,
    sendStartToCloseMs: options.sendStartToCloseMs ?? leaseMs + 15_000,
    drainMs: options.drainMs ?? 120_000,
    temporal: new Client({ connection, namespace }),
  });
  const shared = { connection: nativeConnection, namespace, workflowBundle: builtBundle, shutdownGraceTime: '5s' };
  const workers = await Promise.all([
    Worker.create({
      ...shared,
      taskQueue,
      activities,
      sinks: meterEnds(noopMetricMeter),
      interceptors: {
        activity: [
          ({ info }: { info: { activityType: string } }) => ({
            inbound: {
              async execute(input: never, next: (input: never) => Promise<unknown>) {
                options.beforeActivity?.(info.activityType);
                const result = await next(input);
                options.afterActivity?.(info.activityType);
                return result;
              },
            },
          }),
        ],
      },
      maxConcurrentWorkflowTaskExecutions: 100,
      ...(options.maxCachedWorkflows !== undefined && { maxCachedWorkflows: options.maxCachedWorkflows }),
    } as never),
    Worker.create({ ...shared, taskQueue: budgetTaskQueue(taskQueue), sinks: new BudgetMetrics().sinks }),
  ]);
  const running = Promise.all(workers.map((worker) => worker.run()));
  const client = new Client({ connection, namespace });
  const started: { workflowId: string }[] = [];
  let stopped: Promise<void> | undefined;
  const stopWorkers = () => {
    stopped ??= (async () => {
      for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown();
      await running;
    })();
    return stopped;
  };
  return {
    client,
    taskQueue,
    started,
    async start(input, key = randomUUID()) {
      const handle = await client.workflow.start<typeof followUp>('followUp', {
        taskQueue,
        workflowId: followUpWorkflowId({ projectId: input.projectId, jobId: input.jobId, key }),
        args: [input],
      });
      started.push(handle);
      return handle;
    },
    budgetStatus: (projectId) => client.workflow.getHandle(projectBudgetWorkflowId(projectId)).query(budgetStatusQuery),
    stopWorkers,
    async stop() {
      await stopWorkers();
      await budget.allTold();
      await Promise.all([connection.close(), acquireConnection.close(), nativeConnection.close()]);
    },
  };
}
