import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from '@temporalio/client';
import type { DataConverter } from '@temporalio/common';
import { Runtime, Worker, type WorkerInterceptors, type WorkerOptions } from '@temporalio/worker';
import type { Logger } from 'pino';
import { createBudgets } from './activities/budgets.js';
import { createItemFinder } from './activities/find-items.js';
import { createActivities } from './activities/index.js';
import { type AgentJobsClient, createAgentJobsClient, createApiKeys, type WatchedApiKeys } from './agent-jobs/index.js';
import { ConfigError, createWorkerIdentity, type WorkerConfig } from './config/index.js';
import { budgetTaskQueue } from './contract/index.js';
import { dataConverterPlugin, loadDataConverter, type TemporalPlugin } from './temporal/data-converter.js';
import { ensureSearchAttributes } from './temporal/search-attributes.js';
import { ServerClock } from './temporal/server-clock.js';
import { openTargets, type WebhookTargets } from './webhooks/targets.js';
import { createWebhookActivities } from './webhooks/webhook-activities.js';
import { boundSends } from './worker/bound-sends.js';
import { openConnections } from './worker/connections.js';
import { meterAgentJobs, meterBudgets } from './worker/metrics.js';
import { refuseOtherAddress } from './worker/readiness.js';
import { installRuntime } from './worker/runtime.js';
import { serve, type Workers, type WorkerService } from './worker/service.js';
import { notReady, startStatusServer, type WorkerStatus } from './worker/status-server.js';
import { openBundle, workerOptions } from './worker/worker-options.js';

export { ConfigError, loadConfig, type WorkerConfig } from './config/index.js';
export { type TemporalPlugin } from './temporal/data-converter.js';
export { createLogger } from './worker/logging.js';
export { runUntilSignal, type WorkerService } from './worker/service.js';

const CLOSE_LIMIT_MS = 5_000;

type Closers = (() => Promise<void>)[];

/** Settings of {@link startWorker}. */
export interface StartWorkerOptions {
  config: WorkerConfig;
  logger: Logger;
  /**
   * A custom converter also keeps links to pull requests out of search attributes, which are not encrypted.
   *
   * @default the export of `config.temporal.dataConverterModule`, or Temporal's own
   */
  dataConverter?: DataConverter;
  /** For both Temporal workers. Activities run in the one for follow-ups, except `listRecentSends`. @default none */
  interceptors?: WorkerInterceptors;
  /**
   * Plugins of Temporal's SDK for the connections, clients, workers and the workflow bundle. A plugin that sets
   * `taskQueue`, `activities` or workflows breaks the worker. @default none
   */
  plugins?: readonly TemporalPlugin[];
  /** Path of the workflow bundle. @default the build's in `dist` */
  bundlePath?: string;
  /** Aborts the start, which then rejects with the signal's reason. */
  signal?: AbortSignal;
}

/**
 * Starts a worker: the status server, the connections (waiting up to 2 minutes for Temporal), the search attributes,
 * then one worker for follow-ups and one for budgets. Installs no signal handlers: see {@link runUntilSignal}.
 *
 * @throws ConfigError when the status address cannot be used, another worker uses another service, or on Bun
 * @throws TemporalUnreachableError when Temporal cannot be reached or refuses access
 * @throws SearchAttributesError when the search attributes are missing and may not be registered
 */
export async function startWorker(options: StartWorkerOptions): Promise<WorkerService> {
  const { config, logger, signal, bundlePath, interceptors } = options;
  if ('bun' in process.versions) {
    throw new ConfigError([{ name: 'runtime', message: 'the worker does not run on Bun: use Node.js' }]);
  }
  for (const warning of config.warnings) logger.warn(warning);
  const closers: Closers = [];
  const closeAll = () => closeInReverse(closers, logger);
  const serverClock = new ServerClock();
  const status: WorkerStatus = { readiness: notReady('starting'), serverClock };
  try {
    const server = config.status && (await startStatusServer(config.status, status));
    if (server) closers.push(() => server.close());
    const dataConverter = options.dataConverter ?? (await loadDataConverter(config.temporal.dataConverterModule));
    const plugins = [...(options.plugins ?? []), ...(dataConverter ? [dataConverterPlugin(dataConverter)] : [])];
    const connections = await openConnections(config.temporal, {
      logger,
      plugins,
      ...(signal && { signal }),
      // Not earlier, because an unused runtime keeps the process from ending.
      onReached: async () => void (status.metricsUrl = (await installRuntime(logger)).metricsUrl),
    });
    closers.push(
      () => connections.client.close(),
      () => connections.native.close(),
    );
    const { added } = await ensureSearchAttributes(connections.client, config.temporal.namespace, { signal });
    if (added.length > 0) logger.info({ added }, 'Registered search attributes');
    const keys = openKeys(config, logger);
    const agentJobs = meterAgentJobs(openAgentJobs(config, keys), Runtime.instance().metricMeter);
    closers.push(() => agentJobs.close());
    const { namespace } = config.temporal;
    const identity = createWorkerIdentity(config);
    await refuseOtherAddress(connections.client, { namespace, taskQueue: config.taskQueue, identity, logger });
    const ending = new AbortController();
    const temporal = new Client({ connection: connections.client, namespace });
    signal?.throwIfAborted();
    const workers = await createWorkers(config, {
      connection: connections.native,
      identity,
      workflowBundle: await openBundle(bundlePath, plugins, interceptors?.workflowModules, dataConverter),
      activities: bindActivities(config, {
        agentJobs,
        temporal,
        targets: openTargets(config.webhooks, reportFileProblem(logger, 'webhooks')),
        linksArePrivate: dataConverter !== undefined,
        ending: ending.signal,
        serverClock,
      }),
      // The bundle contains the workflow interceptors.
      ...(interceptors && { interceptors: { ...interceptors, workflowModules: [] } }),
    });
    const statusUrl = server?.url;
    return serve({ config, logger, connections, keys, status, identity, workers, statusUrl, ending, closeAll });
  } catch (error) {
    await closeAll();
    throw error;
  }
}

/** Last opened, first closed. Resources of a failed worker may never close, and must not keep the others open. */
async function closeInReverse(closers: Closers, logger: Logger): Promise<void> {
  for (const close of closers.splice(0).reverse()) {
    const givingUp = sleep(CLOSE_LIMIT_MS, undefined, { ref: false });
    await Promise.race([close(), givingUp]).catch((error: unknown) => logger.debug({ err: error }, 'Cannot close'));
  }
}

function openKeys({ agentJobs: { apiKeys } }: WorkerConfig, logger: Logger): WatchedApiKeys {
  return createApiKeys({
    ...apiKeys,
    key: apiKeys.key?.(),
    onProblem: reportFileProblem(logger, 'API keys'),
  });
}

function reportFileProblem(logger: Logger, content: string) {
  return (file: string, problem: string | undefined): void => {
    if (problem === undefined) logger.info({ file }, `The file of ${content} can be used again`);
    else logger.error({ file, problem }, `A file of ${content} cannot be used; the last good ${content} stay in use`);
  };
}

function openAgentJobs({ agentJobs, budget, projects }: WorkerConfig, keys: WatchedApiKeys): AgentJobsClient {
  const { baseUrl, getTimeoutMs, sendTimeoutMs } = agentJobs;
  const client = createAgentJobsClient({ baseUrl, keys, getTimeoutMs, sendTimeoutMs });
  return boundSends(client, { projects, ceiling: { limit: budget.maxLimit, windowMs: budget.windowMs } });
}

/**
 * Creates the activities.
 *
 * @param parts.linksArePrivate whether there is a custom data converter
 * @param parts.ending aborted when the worker is about to end
 */
function bindActivities(
  { taskQueue, leaseMs, drainMs, budget, agentJobs: { sendTimeoutMs }, capacity }: WorkerConfig,
  parts: {
    agentJobs: AgentJobsClient;
    temporal: Client;
    targets: () => Promise<WebhookTargets>;
    linksArePrivate: boolean;
    ending: AbortSignal;
    serverClock: ServerClock;
  },
) {
  const { temporal, targets, ...others } = parts;
  const { maxLimit, ...settings } = budget;
  const activities = createActivities({
    ...others,
    budgets: meterBudgets(
      createBudgets(temporal, { taskQueue, settings, serverClock: parts.serverClock }),
      Runtime.instance().metricMeter,
    ),
    sendTimeoutMs,
    leaseMs,
    drainMs,
    maxLimit,
    maxWatches: capacity.watches,
  });
  const webhooks = createWebhookActivities({
    targets,
    linksArePrivate: parts.linksArePrivate,
    maxAttempts: Math.ceil(capacity.activities / 4),
    clockProblem: () => parts.serverClock.problem(),
  });
  return { ...activities, ...createItemFinder(temporal), ...webhooks };
}

async function createWorkers(config: WorkerConfig, shared: Partial<WorkerOptions>): Promise<Workers> {
  const { taskQueue, temporal } = config;
  const { namespace } = temporal;
  const ofEach = workerOptions(config);
  // In parallel: each starts a thread that loads the SDK and the bundle.
  const creations = [
    Worker.create({ ...ofEach.budgets, ...shared, namespace, taskQueue: budgetTaskQueue(taskQueue) }),
    Worker.create({ ...ofEach.followUps, ...shared, namespace, taskQueue }),
  ] as const;
  try {
    const [budgets, followUps] = await Promise.all(creations);
    return { budgets, followUps };
  } catch (error) {
    // A worker that never runs would keep its connection open.
    const leaveUnused = (worker: Worker) => worker.runUntil(Promise.resolve());
    await Promise.all(creations.map((creation) => creation.then(leaveUnused, () => undefined)));
    throw error;
  }
}
