import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { context, propagation } from '@opentelemetry/api';
import { activityInfo } from '@temporalio/activity';
import { Client } from '@temporalio/client';
import type { DataConverter } from '@temporalio/common';
import {
  bundleWorkflowCode,
  Runtime,
  Worker,
  type WorkerInterceptors,
  type WorkerPlugin,
  type WorkflowBundleOption,
} from '@temporalio/worker';
import type { Logger } from 'pino';
import { type Budgets, createBudgets } from './activities/budgets.js';
import { createLookUps } from './activities/batch-look-ups.js';
import { createActivities } from './activities/index.js';
import { type AgentJobsClient, createAgentJobsClient, createApiKeys, type WatchedApiKeys } from './agent-jobs/index.js';
import { ConfigError, type WorkerConfig } from './config/index.js';
import { budgetTaskQueue } from './contract/index.js';
import { PACKAGE_ROOT, PACKAGE_VERSION } from './package.js';
import { ensureSearchAttributes } from './temporal/search-attributes.js';
import { dataConverterPlugin, loadDataConverter, type TemporalPlugin } from './temporal/data-converter.js';
import { boundSends } from './worker/bound-sends.js';
import { workflowBundleOptions } from './worker/bundle-options.js';
import { type Connections, openConnections } from './worker/connections.js';
import { renewCredentials } from './worker/credentials.js';
import { meterAgentJobs, meterBudgets, processMetricsText } from './worker/metrics.js';
import { waitUntilPolled, watchReadiness } from './worker/readiness.js';
import { installRuntime } from './worker/runtime.js';
import { startStatusServer, WorkerStatus } from './worker/status-server.js';
import { budgetWorkerOptions, deploymentOptions, followUpWorkerOptions } from './worker/worker-options.js';

const BUNDLE_PATH = join(PACKAGE_ROOT, 'dist', 'workflow-bundle.js');

export { ConfigError, loadConfig, type WorkerConfig } from './config/index.js';
export { createLogger } from './logging.js';
export type { TemporalPlugin } from './temporal/data-converter.js';

/** Settings of {@link startWorker}. */
export interface StartWorkerOptions {
  config: WorkerConfig;
  logger: Logger;
  /**
   * With one, links to pull requests are kept out of the search attributes, which nobody encrypts.
   *
   * @default what the module of `config.temporal.dataConverterModule` exports, or Temporal's own data converter
   */
  dataConverter?: DataConverter;
  /** Of both Temporal workers. Activities run in the one for follow-ups. @default none */
  interceptors?: WorkerInterceptors;
  /**
   * Plugins of Temporal's SDK for the connections, clients, workers and the bundle of workflows. One that sets
   * `taskQueue`, `activities` or workflows takes the worker apart. @default none
   */
  plugins?: readonly TemporalPlugin[];
  /** Path of the workflow bundle. @default the one that the build makes in `dist` */
  bundlePath?: string;
  /** Aborts the start. The promise is rejected with the signal's reason. */
  signal?: AbortSignal;
}

/** A running worker. */
export interface WorkerService {
  /** Resolves when both task queues are polled. Rejects if the worker ends before. */
  readonly ready: Promise<void>;
  /** URL of the status server, without a path; `undefined` if it is off. */
  readonly statusUrl: string | undefined;
  /** The worker's name in the task queues' lists of pollers. */
  readonly identity: string;
  /** Resolves when the worker is shut down and everything is closed. Rejects if it failed. */
  run(): Promise<void>;
  /** Lets running sends finish, stops, and closes everything. Calling it again is harmless and interrupts nothing. */
  shutdown(): Promise<void>;
}

/**
 * Starts a worker: the status server, the connections (it waits up to 2 minutes for Temporal), the search attributes,
 * then one worker for follow-ups and one for budgets. Installs no signal handlers: see {@link runUntilSignal}.
 *
 * @throws ConfigError when the status address cannot be used, or the process runs on Bun
 * @throws TemporalUnreachableError when Temporal cannot be reached or refuses access
 * @throws SearchAttributesError when the search attributes are missing and may not be registered
 */
export async function startWorker(options: StartWorkerOptions): Promise<WorkerService> {
  const { config, logger, signal } = options;
  if ('bun' in process.versions) {
    throw new ConfigError([{ name: 'runtime', message: 'Bun polls no task queue: run the worker with Node.js' }]);
  }
  for (const warning of config.warnings) logger.warn(warning);
  const closers: (() => Promise<void>)[] = [];
  const closeAll = async (): Promise<void> => {
    for (const close of closers.splice(0).reverse()) await close();
  };
  const status = new WorkerStatus(({ ready }) => processMetricsText({ version: PACKAGE_VERSION, ready }));
  try {
    const server = config.status && (await startStatusServer(config.status, status));
    if (server) closers.push(() => server.close());
    const dataConverter = options.dataConverter ?? (await loadDataConverter(config.temporal.dataConverterModule));
    const plugins = [...(options.plugins ?? []), ...(dataConverter ? [dataConverterPlugin(dataConverter)] : [])];
    const connections = await openConnections(config.temporal, {
      logger,
      plugins,
      ...(signal && { signal }),
      // Not earlier: a runtime that nothing uses keeps the process from ending.
      onReached: async () => status.setMetricsUrl((await installRuntime(logger)).metricsUrl),
    });
    closers.push(() => connections.close());
    const { added } = await ensureSearchAttributes(connections.client, config.temporal.namespace);
    if (added.length > 0) logger.info({ added }, 'Registered search attributes');
    const keys = openKeys(config, logger);
    const agentJobs = meterAgentJobs(openAgentJobs(config, keys), Runtime.instance().metricMeter);
    closers.push(() => agentJobs.close());
    const identity = `${process.pid}@${hostname()}/${randomUUID().slice(0, 8)}`;
    const workflowBundle = await openBundle({ ...options, plugins, ...(dataConverter && { dataConverter }) });
    const encrypts = dataConverter !== undefined;
    const handBack = new AbortController();
    const parts = { connections, agentJobs, identity, workflowBundle, encrypts, handBack: handBack.signal };
    const workers = await createWorkers(options, parts);
    const statusUrl = server?.url;
    return serve({ config, logger, connections, keys, status, identity, workers, statusUrl, handBack, closeAll });
  } catch (error) {
    await closeAll();
    throw error;
  }
}

interface WorkerParts {
  connections: Connections;
  agentJobs: AgentJobsClient;
  identity: string;
  workflowBundle: WorkflowBundleOption;
  /** Whether there is a data converter that is not Temporal's own. */
  encrypts: boolean;
  /** Aborted when sleeping watches are to leave this process. */
  handBack: AbortSignal;
}

interface Workers {
  followUps: Worker;
  budgets: Worker;
}

interface ServiceParts extends Pick<WorkerParts, 'connections' | 'identity'> {
  config: WorkerConfig;
  logger: Logger;
  keys: WatchedApiKeys;
  status: WorkerStatus;
  workers: Workers;
  statusUrl: string | undefined;
  handBack: AbortController;
  closeAll: () => Promise<void>;
}

/** Runs the workers, and what accompanies them, until they end. */
function serve(parts: ServiceParts): WorkerService {
  const { logger, connections, status, identity, workers, statusUrl, handBack, closeAll } = parts;
  const ended = new AbortController();
  const { signal } = ended;
  // Handles its own errors and never rejects.
  const renewing = renewCredentials(connections, { workers: Object.values(workers), logger, signal });
  const stopped = runWorkers(workers).finally(async () => {
    handBack.abort();
    status.setNotReady('stopped');
    ended.abort(new Error('the worker ended before it was ready'));
    // It may have connections that nobody else knows yet.
    await renewing;
    await closeAll();
  });
  const ready = becomeReady(parts, signal);
  // The caller need not use either. `run` and `ready` still pass their errors on to a caller that does.
  ready.catch(() => undefined);
  stopped.catch(() => undefined);
  return {
    ready,
    statusUrl,
    identity,
    run: () => stopped,
    shutdown: async () => {
      status.setNotReady('shutting down');
      handBack.abort();
      shutDown(workers.followUps);
      await stopped;
    },
  };
}

/** Resolves when the task queues are polled. From then on the status says whether the worker can do its work. */
async function becomeReady(parts: ServiceParts, signal: AbortSignal): Promise<void> {
  const { config, logger, connections, keys, status, identity } = parts;
  const { taskQueue } = config;
  const { address, namespace } = config.temporal;
  await waitUntilPolled(connections.client, {
    namespace,
    identity,
    queues: [
      { name: taskQueue, type: 'workflow' },
      { name: taskQueue, type: 'activity' },
      { name: budgetTaskQueue(taskQueue), type: 'workflow' },
    ],
    logger,
    signal,
  });
  status.setCheck(watchReadiness(connections.client, keys, { namespace, taskQueue }));
  logger.info({ taskQueue, namespace, address }, 'The worker takes follow-ups');
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
  const { baseUrl, getTimeoutMs, sendTimeoutMs, correlationHeader } = agentJobs;
  const extraHeaders = () => requestHeaders(correlationHeader);
  const client = createAgentJobsClient({ baseUrl, keys, getTimeoutMs, sendTimeoutMs, extraHeaders });
  return boundSends(client, { projects, ceiling: { limit: budget.maxLimit, windowMs: budget.windowMs } });
}

/** Headers that lead from a request of an activity to its trace, if there is one, and to its workflow. */
function requestHeaders(correlationHeader: string | undefined): Record<string, string> {
  const headers: Record<string, string> = {};
  propagation.inject(context.active(), headers);
  const { workflowId } = activityInfo().workflowExecution ?? {};
  // A header takes no other characters than ASCII.
  if (correlationHeader !== undefined && workflowId !== undefined) headers[correlationHeader] = encodeURI(workflowId);
  return headers;
}

/** The bundle of the build, or a new one with what runs inside of workflows: takes some seconds. */
async function openBundle({
  bundlePath = BUNDLE_PATH,
  plugins = [],
  interceptors,
  dataConverter: { payloadConverterPath, failureConverterPath } = {},
}: StartWorkerOptions): Promise<WorkflowBundleOption> {
  const { workflowModules = [] } = interceptors ?? {};
  const isBundled = plugins.some((plugin) => plugin.configureBundler !== undefined);
  const inWorkflows = [payloadConverterPath, failureConverterPath, ...workflowModules];
  if (!isBundled && inWorkflows.every((path) => path === undefined)) return { codePath: bundlePath };
  return bundleWorkflowCode({
    ...workflowBundleOptions(join(PACKAGE_ROOT, 'dist', 'workflows', 'index.js')),
    logger: Runtime.instance().logger,
    plugins: [...plugins],
    workflowInterceptorModules: workflowModules,
    ...(payloadConverterPath !== undefined && { payloadConverterPath }),
    ...(failureConverterPath !== undefined && { failureConverterPath }),
  });
}

async function createWorkers(
  { config, interceptors }: StartWorkerOptions,
  { connections, agentJobs, identity, workflowBundle, encrypts, handBack }: WorkerParts,
): Promise<Workers> {
  const { taskQueue, leaseMs, drainMs } = config;
  const { maxLimit, ...settings } = config.budget;
  const { namespace } = config.temporal;
  const temporal = new Client({ connection: connections.client, namespace });
  const budgets: Budgets = createBudgets(temporal, { taskQueue, settings });
  const coreActivities = createActivities({
    agentJobs,
    budgets: meterBudgets(budgets, Runtime.instance().metricMeter),
    sendTimeoutMs: config.agentJobs.sendTimeoutMs,
    leaseMs,
    drainMs,
    marginMs: settings.marginMs,
    maxLimit,
    maxWatches: config.capacity.watches,
    handBack,
    linksArePrivate: encrypts,
  });
  const activities = { ...coreActivities, ...createLookUps(temporal) };
  const shared = {
    connection: connections.native,
    namespace,
    identity,
    workflowBundle,
    ...(config.version && { workerDeploymentOptions: deploymentOptions(config.version) }),
    // Those of workflows are in the bundle.
    ...(interceptors && { interceptors: { ...interceptors, workflowModules: [] } }),
  };
  // In parallel: each starts a thread that loads the SDK and the bundle.
  const creations = [
    Worker.create({
      ...budgetWorkerOptions(config),
      ...shared,
      taskQueue: budgetTaskQueue(taskQueue),
      activities,
    }),
    Worker.create({
      ...followUpWorkerOptions(config),
      ...shared,
      taskQueue,
      activities,
    }),
  ] as const;
  try {
    const [budgets, followUps] = await Promise.all(creations);
    return { budgets, followUps };
  } catch (error) {
    // A worker that never runs would keep its connection forever.
    const leaveUnused = (worker: Worker) => worker.runUntil(Promise.resolve());
    await Promise.all(creations.map((creation) => creation.then(leaveUnused, () => undefined)));
    throw error;
  }
}

/** Runs both until one ends. The budgets' worker stops last, because sends under way may still ask it. */
async function runWorkers({ followUps, budgets }: Workers): Promise<void> {
  const budgetsEnded = budgets.run().finally(() => shutDown(followUps));
  const followUpsEnded = followUps.run().finally(() => shutDown(budgets));
  await untilAllEnded([followUpsEnded, budgetsEnded]);
}

/** Waits until each has ended, however it does. Throws the error of the first in the list that failed. */
async function untilAllEnded(ends: readonly Promise<void>[]): Promise<void> {
  for (const result of await Promise.allSettled(ends)) if (result.status === 'rejected') throw result.reason;
}

/** Shuts a worker down, unless it has ended or is about to. */
function shutDown(worker: Worker): void {
  if (worker.getState() === 'RUNNING') worker.shutdown();
}

/**
 * A plugin for a Temporal worker of your own: it runs a worker for follow-ups in the same process, for as long as yours
 * runs. Your worker's task queue, workflows and activities stay as they are. If one of the two fails, both end.
 */
export function createFollowUpPlugin(options: StartWorkerOptions): WorkerPlugin {
  return {
    name: 'agent-follow-up',
    runWorker: async (worker, next) => {
      const service = await startWorker(options);
      await untilAllEnded([
        next(worker).finally(() => service.shutdown()),
        service.run().finally(() => shutDown(worker)),
      ]);
    },
  };
}

const shutdownSignals = ['SIGINT', 'SIGTERM', 'SIGQUIT', 'SIGHUP'] as const;

/**
 * Runs a worker until the process receives a signal to end, and then lets running sends finish. A second signal changes
 * nothing: nobody could tell whether a message that is cut off half-way was delivered.
 *
 * @param start starts the worker. Its signal is aborted if the process receives a signal before the start is done
 */
export async function runUntilSignal(
  start: (signal: AbortSignal) => Promise<WorkerService>,
  logger: Logger,
): Promise<void> {
  const told = new AbortController();
  let service: WorkerService | undefined;
  const onSignal = (name: NodeJS.Signals): void => {
    if (told.signal.aborted) {
      logger.warn({ signal: name }, 'Still shutting down: waiting for running sends to finish');
      return;
    }
    logger.info({ signal: name }, 'Shutting down');
    told.abort(new Error(`told to end by ${name}`));
    // `run` rejects with the same error.
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
