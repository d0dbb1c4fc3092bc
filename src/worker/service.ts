import type { Worker } from '@temporalio/worker';
import type { Logger } from 'pino';
import type { WatchedApiKeys } from '../agent-jobs/index.js';
import type { WorkerConfig } from '../config/index.js';
import { budgetTaskQueue } from '../contract/index.js';
import type { Connections } from './connections.js';
import { renewCredentials } from './credentials.js';
import { waitUntilPolled, watchReadiness } from './readiness.js';
import type { WorkerStatus } from './status-server.js';

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

/** The two Temporal workers of a process. */
export interface Workers {
  followUps: Worker;
  budgets: Worker;
}

/** What a running worker consists of. */
export interface ServiceParts {
  connections: Connections;
  identity: string;
  config: WorkerConfig;
  logger: Logger;
  keys: WatchedApiKeys;
  status: WorkerStatus;
  workers: Workers;
  statusUrl: string | undefined;
  /** Aborted when sleeping watches are to leave this process. */
  handBack: AbortController;
  closeAll: () => Promise<void>;
}

/** Runs the workers, and what accompanies them, until they end. */
export function serve(parts: ServiceParts): WorkerService {
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

/** Runs both until one ends. The budgets' worker stops last, because sends under way may still ask it. */
async function runWorkers({ followUps, budgets }: Workers): Promise<void> {
  const budgetsEnded = budgets.run().finally(() => shutDown(followUps));
  const followUpsEnded = followUps.run().finally(() => shutDown(budgets));
  await untilAllEnded([followUpsEnded, budgetsEnded]);
}

/** Waits until each has ended, however it does. Throws the error of the first in the list that failed. */
export async function untilAllEnded(ends: readonly Promise<void>[]): Promise<void> {
  for (const result of await Promise.allSettled(ends)) if (result.status === 'rejected') throw result.reason;
}

/** Shuts a worker down, unless it has ended or is about to. */
export function shutDown(worker: Worker): void {
  if (worker.getState() === 'RUNNING') worker.shutdown();
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
