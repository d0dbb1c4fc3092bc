import { randomUUID } from 'node:crypto';
import { createRequire } from 'node:module';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { Client } from '@temporalio/client';
import { Runtime, Worker } from '@temporalio/worker';
import type { Logger } from 'pino';
import { type BudgetClient, createActivities, createBudgetClient, createOwnRun } from './activities/index.js';
import { type AgentJobsClient, createAgentJobsClient, createApiKeys, type WatchedApiKeys } from './agent-jobs/index.js';
import type { WorkerConfig } from './config/index.js';
import { budgetTaskQueue } from './contract/index.js';
import { ensureSearchAttributes } from './temporal/search-attributes.js';
import { boundSends } from './worker/bound-sends.js';
import { BudgetMetrics } from './worker/budget-metrics.js';
import { dropBudgetsElsewhere } from './worker/budget-whereabouts.js';
import { type Connections, openConnections } from './worker/connections.js';
import { meterAgentJobs, meterBudget } from './worker/metrics.js';
import { waitUntilPolled } from './worker/polling.js';
import { watchReadiness } from './worker/readiness.js';
import { installRuntime } from './worker/runtime.js';
import { type Readiness, startStatusServer } from './worker/status-server.js';
import { budgetWorkerOptions, followUpWorkerOptions } from './worker/worker-options.js';

/** By the package's name: this code is in `dist`, in the bundled command line in `dist/cli`, and, in tests, in `src`. */
const PACKAGE_ROOT = dirname(createRequire(import.meta.url).resolve('agent-follow-up/package.json'));
const BUNDLE_PATH = join(PACKAGE_ROOT, 'dist', 'workflow-bundle.js');

/** Settings of {@link startWorker}. */
export interface StartWorkerOptions {
  config: WorkerConfig;
  logger: Logger;
  /** Path of the workflow bundle. @default the one that the build makes in `dist` */
  bundlePath?: string;
  /** Ends the start early; the promise is rejected with the signal's reason. */
  signal?: AbortSignal;
}

/** A running worker. */
export interface WorkerService {
  /** Resolves when both task queues are polled; rejects when the worker ends before. */
  readonly ready: Promise<void>;
  /** Where the status server listens, without a path; `undefined` where it is off. */
  readonly statusUrl: string | undefined;
  /** As the task queues' lists of pollers show it. */
  readonly identity: string;
  /** Resolves when the worker has been shut down and everything is closed; rejects when it failed. */
  run(): Promise<void>;
  /** Lets running sends end, stops, and closes everything. May be called again: it never cuts anything short. */
  shutdown(): Promise<void>;
}

/**
 * Starts a worker: the status server, the connections (it waits up to 2 minutes for Temporal), the search attributes,
 * then one worker for follow-ups and one for budgets. Installs no signal handlers: see {@link runUntilSignal}.
 *
 * @throws ConfigError when the status address cannot be used
 * @throws TemporalUnreachableError when Temporal stays away or refuses access
 * @throws SearchAttributesError when the search attributes are missing and may not be registered
 */
export async function startWorker(options: StartWorkerOptions): Promise<WorkerService> {
  const { config, logger, signal } = options;
  const closers: (() => Promise<void>)[] = [];
  const closeAll = async (): Promise<void> => {
    for (const close of closers.splice(0).reverse()) await close();
  };
  let readiness = (): Promise<Readiness> => Promise.resolve({ ready: false, reason: 'starting' });
  const noLonger = (reason: string) => {
    readiness = () => Promise.resolve({ ready: false, reason });
  };
  let metricsUrl: string | undefined;
  const budgetMetrics = new BudgetMetrics();
  for (const warning of config.warnings) logger.warn(warning);
  try {
    const status =
      config.status &&
      (await startStatusServer(config.status, {
        readiness: () => readiness(),
        metricsUrl: () => metricsUrl,
        ownMetrics: () => budgetMetrics.text(),
      }));
    if (status) closers.push(() => status.close());
    const connections = await openConnections(config.temporal, {
      logger,
      ...(signal && { signal }),
      // Not before: a runtime that nothing uses keeps the process from ending.
      onReached: async () => {
        ({ metricsUrl } = await installRuntime(logger));
      },
    });
    closers.push(() => connections.close());
    const { added } = await ensureSearchAttributes(connections.client, config.temporal.namespace);
    if (added.length > 0) logger.info({ added }, 'Registered search attributes');
    const keys = openKeys(config, logger);
    const agentJobs = meterAgentJobs(openAgentJobs(config, keys), Runtime.instance().metricMeter);
    closers.push(() => agentJobs.close());
    const budget = openBudget(config, connections, logger);
    closers.push(() => budget.allTold());
    const identity = `${process.pid}@${hostname()}/${randomUUID().slice(0, 8)}`;
    const workers = await createWorkers(options, { connections, agentJobs, budget, budgetMetrics, identity });

    const { namespace } = config.temporal;
    const polling = new AbortController();
    const stopped = runWorkers(workers).finally(async () => {
      noLonger('stopped');
      polling.abort(new Error('the worker ended before it was ready'));
      await closeAll();
    });
    const ready = waitUntilPolled(connections.client, {
      namespace: config.temporal.namespace,
      identity,
      queues: [
        { name: config.taskQueue, type: 'workflow' },
        { name: config.taskQueue, type: 'activity' },
        { name: budgetTaskQueue(config.taskQueue), type: 'workflow' },
      ],
      logger,
      signal: polling.signal,
    }).then(() => {
      readiness = watchReadiness(connections.client, keys, { namespace, taskQueue: config.taskQueue });
      logger.info(
        { taskQueue: config.taskQueue, namespace: config.temporal.namespace, address: config.temporal.address },
        'The worker takes follow-ups',
      );
    });
    // Its errors are its own; it never rejects.
    void dropBudgetsElsewhere(connections.client, budgetMetrics, {
      namespace,
      identity,
      logger,
      signal: polling.signal,
    });
    // Both may be left unused by the caller; `run` and `ready` still hand their errors to whoever asks.
    ready.catch(() => undefined);
    stopped.catch(() => undefined);
    return {
      ready,
      statusUrl: status?.url,
      identity,
      run: () => stopped,
      shutdown: async () => {
        noLonger('shutting down');
        shutDown(workers.followUps);
        await stopped;
      },
    };
  } catch (error) {
    await closeAll();
    throw error;
  }
}

interface WorkerParts {
  connections: Connections;
  agentJobs: AgentJobsClient;
  budget: BudgetClient;
  budgetMetrics: BudgetMetrics;
  identity: string;
}

interface Workers {
  followUps: Worker;
  budgets: Worker;
}

function openKeys({ agentJobs: { apiKeys } }: WorkerConfig, logger: Logger): WatchedApiKeys {
  return createApiKeys({
    ...apiKeys,
    key: apiKeys.key?.(),
    onProblem: (file, problem) => {
      if (problem === undefined) logger.info({ file }, 'The file of API keys can be used again');
      else logger.error({ file, problem }, 'A file of API keys cannot be used; the last good keys stay in use');
    },
  });
}

function openAgentJobs({ agentJobs, budget, projects }: WorkerConfig, keys: WatchedApiKeys): AgentJobsClient {
  const { baseUrl, getTimeoutMs, sendTimeoutMs } = agentJobs;
  const client = createAgentJobsClient({ baseUrl, keys, getTimeoutMs, sendTimeoutMs });
  return boundSends(client, { projects, ceiling: { limit: budget.maxLimit, windowMs: budget.windowMs } });
}

function openBudget(
  { temporal: { namespace }, taskQueue, budget }: WorkerConfig,
  connections: Connections,
  logger: Logger,
) {
  const client = createBudgetClient({
    acquireConnection: connections.acquire,
    connection: connections.client,
    namespace,
    taskQueue,
    settings: budget,
    onSilence: (projectId, reason) => {
      if (reason === undefined) logger.info({ projectId }, 'The budget answers again');
      else logger.warn({ projectId, reason }, 'The budget does not answer; "follow-up doctor" says what keeps it');
    },
  });
  return meterBudget(client, Runtime.instance().metricMeter);
}

async function createWorkers(
  { config, bundlePath = BUNDLE_PATH }: StartWorkerOptions,
  { connections, agentJobs, budget, budgetMetrics, identity }: WorkerParts,
): Promise<Workers> {
  const { taskQueue, leaseMs, drainMs, sendStartToCloseMs } = config;
  const ceiling = { limit: config.budget.maxLimit, windowMs: config.budget.windowMs };
  const { namespace } = config.temporal;
  const activities = createActivities({
    agentJobs,
    budget,
    ownRun: createOwnRun({ connection: connections.client, namespace }),
    sendTimeoutMs: config.agentJobs.sendTimeoutMs,
    leaseMs,
    sendStartToCloseMs,
    drainMs,
    temporal: new Client({ connection: connections.client, namespace }),
    ceiling,
  });
  const shared = {
    connection: connections.native,
    namespace,
    identity,
    workflowBundle: { codePath: bundlePath },
  };
  // Side by side: each starts a thread that loads the SDK and the bundle.
  const creations = [
    Worker.create({
      ...budgetWorkerOptions(config),
      ...shared,
      taskQueue: budgetTaskQueue(taskQueue),
      sinks: budgetMetrics.sinks,
    }),
    Worker.create({ ...followUpWorkerOptions(config), ...shared, taskQueue, activities }),
  ] as const;
  try {
    const [budgets, followUps] = await Promise.all(creations);
    return { budgets, followUps };
  } catch (error) {
    // A worker that was never run would hold its connection for ever.
    const leaveUnused = (worker: Worker) => worker.runUntil(Promise.resolve());
    await Promise.all(creations.map((creation) => creation.then(leaveUnused, () => undefined)));
    throw error;
  }
}

/** Runs both until one ends. The budgets' worker goes last: sends that are under way may still ask it. */
async function runWorkers({ followUps, budgets }: Workers): Promise<void> {
  const budgetsEnded = budgets.run().finally(() => shutDown(followUps));
  const followUpsEnded = followUps.run().finally(() => shutDown(budgets));
  const [first, second] = await Promise.allSettled([followUpsEnded, budgetsEnded]);
  for (const result of [first, second]) if (result.status === 'rejected') throw result.reason;
}

/** A worker that has ended, or is about to, must not be shut down again. */
function shutDown(worker: Worker): void {
  if (worker.getState() === 'RUNNING') worker.shutdown();
}

const shutdownSignals = ['SIGINT', 'SIGTERM', 'SIGQUIT'] as const;

/**
 * Runs a worker until the process is told to end, and then lets running sends end. A second signal changes nothing: a
 * message that is cut off half-way could not be told from one that was delivered.
 *
 * @param start starts the worker; its signal is aborted when the process is told to end before the start is done
 */
export async function runUntilSignal(
  start: (signal: AbortSignal) => Promise<WorkerService>,
  logger: Logger,
): Promise<void> {
  const told = new AbortController();
  let service: WorkerService | undefined;
  const onSignal = (name: NodeJS.Signals): void => {
    if (told.signal.aborted) {
      logger.warn({ signal: name }, 'Still shutting down: running sends are let end');
      return;
    }
    logger.info({ signal: name }, 'Shutting down');
    told.abort(new Error(`told to end by ${name}`));
    // A failure is what `run` ends with, too.
    service?.shutdown().catch(() => undefined);
  };
  for (const name of shutdownSignals) process.on(name, onSignal);
  try {
    service = await start(told.signal);
    if (told.signal.aborted) await service.shutdown();
    await service.run();
  } catch (error) {
    if (service === undefined && told.signal.aborted) return;
    throw error;
  } finally {
    for (const name of shutdownSignals) process.off(name, onSignal);
  }
}
