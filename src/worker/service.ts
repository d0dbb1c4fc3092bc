import { setTimeout as sleep } from 'node:timers/promises';
import type { Worker } from '@temporalio/worker';
import type { Logger } from 'pino';
import type { WatchedApiKeys } from '../agent-jobs/index.js';
import type { WorkerConfig } from '../config/index.js';
import { type Connections, followApiKey } from './connections.js';
import { shutdownForceMs } from './options.js';
import { waitUntilPolled, watchReadiness } from './readiness.js';
import { notReady, type WorkerStatus } from './status-server.js';

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

/** The two Temporal workers of a process, as far as a service needs them. */
export type Workers = Record<'followUps' | 'budgets', Pick<Worker, 'getState' | 'run' | 'shutdown'>>;

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
  /** Aborted when the worker begins to end: sleeping watches leave this process. */
  ending: AbortController;
  closeAll: () => Promise<void>;
}

/** Beyond the time that the Temporal workers give themselves to shut down. */
const END_SLACK_MS = 10_000;

/** Runs the workers, and what accompanies them, until they end. */
export function serve(parts: ServiceParts): WorkerService {
  const { config, logger, connections, keys, status, identity, workers, statusUrl, ending, closeAll } = parts;
  const { taskQueue, temporal } = config;
  const { address, namespace } = temporal;
  const { signal } = ending;
  const end = (reason: string): void => {
    if (signal.aborted) return;
    status.readiness = notReady(reason);
    ending.abort(new Error('the worker ended before it was ready'));
    // Its end shuts the budgets' worker down: sends under way may still ask it.
    shutDown(workers.followUps);
  };
  const following = followApiKey(connections, temporal, { logger, signal });
  const stopped = runWorkers(workers, {
    onEnd: () => end('a Temporal worker of this process has failed'),
    endWithinMs: shutdownForceMs(config) + END_SLACK_MS,
  }).finally(async () => {
    await following;
    await closeAll();
  });
  const becomeReady = async (): Promise<void> => {
    await waitUntilPolled(connections.client, { namespace, taskQueue, identity, logger, signal });
    signal.throwIfAborted();
    status.readiness = watchReadiness(connections.client, keys, { namespace, taskQueue });
    logger.info({ taskQueue, namespace, address }, 'The worker takes follow-ups');
  };
  const ready = becomeReady();
  // The caller need not use either. `run` and `ready` still pass their errors on to a caller that does.
  ready.catch(() => undefined);
  stopped.catch(() => undefined);
  return {
    ready,
    statusUrl,
    identity,
    run: () => stopped,
    shutdown: async () => {
      end('shutting down');
      await stopped;
    },
  };
}

/** Time between two looks at the state of the Temporal workers. */
const LOOK_EVERY_MS = 250;

/**
 * Runs both until they have ended. One that has failed may never end, so its state counts, and the wait for the end of
 * both has a limit.
 *
 * @param options.onEnd called when one of them no longer runs
 * @throws the error of the first that failed, or an error that says that they did not end
 */
export async function runWorkers(
  { followUps, budgets }: Workers,
  { onEnd, endWithinMs }: { onEnd: () => void; endWithinMs: number },
): Promise<void> {
  const failures: unknown[] = [];
  const keep = (error: unknown) => void failures.push(error);
  const ends = [followUps.run().finally(() => shutDown(budgets)), budgets.run()].map((end) => end.catch(keep));
  const ended = Promise.all(ends).then(() => true);
  while (followUps.getState() === 'RUNNING' && budgets.getState() === 'RUNNING') await sleep(LOOK_EVERY_MS);
  onEnd();
  const over = new AbortController();
  const isOver = await Promise.race([ended, sleep(endWithinMs, false, { signal: over.signal })]);
  over.abort();
  if (failures.length > 0) throw failures[0];
  if (!isOver) throw new Error('a Temporal worker of this process failed and did not stop');
}

/** Shuts a worker down, unless it has ended or is about to. */
function shutDown(worker: Workers['budgets']): void {
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
