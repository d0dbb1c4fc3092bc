import { setTimeout as sleep } from 'node:timers/promises';
import type { Worker } from '@temporalio/worker';
import type { Logger } from 'pino';
import type { WatchedApiKeys } from '../agent-jobs/index.js';
import { ConfigError, type WorkerConfig } from '../config/index.js';
import { type Connections, followApiKey } from './connections.js';
import { refuseOtherAddress, waitUntilPolled, watchReadiness } from './readiness.js';
import { notReady, type WorkerStatus } from './status-server.js';
import { shutdownForceMs } from './worker-options.js';

/** A running worker. */
export interface WorkerService {
  /** Resolves when both task queues are polled. Rejects if the worker ends first. */
  readonly ready: Promise<void>;
  /** URL of the status server, without a path; `undefined` if it is off. */
  readonly statusUrl: string | undefined;
  /** The worker's name among the task queues' pollers. */
  readonly identity: string;
  /** Resolves when the worker is shut down and everything is closed. Rejects if it failed. */
  run(): Promise<void>;
  /** Waits for sends in progress, stops, and closes everything. Repeated calls are harmless. */
  shutdown(): Promise<void>;
}

export type Workers = Record<'followUps' | 'budgets', Pick<Worker, 'getState' | 'run' | 'shutdown'>>;

export interface ServiceParts {
  connections: Connections;
  identity: string;
  config: WorkerConfig;
  logger: Logger;
  keys: WatchedApiKeys;
  status: WorkerStatus;
  workers: Workers;
  statusUrl: string | undefined;
  /** Aborted when the worker starts to end: sleeping watches leave this process. */
  ending: AbortController;
  closeAll: () => Promise<void>;
}

/** Beyond the Temporal workers' own shutdown time. */
const END_SLACK_MS = 10_000;

export function serve(parts: ServiceParts): WorkerService {
  const { config, logger, connections, keys, status, identity, workers, statusUrl, ending, closeAll } = parts;
  const { taskQueue, temporal } = config;
  const { address, namespace } = temporal;
  const { signal } = ending;
  const { serverClock } = status;
  const end = (reason: string): void => {
    if (signal.aborted) return;
    status.readiness = notReady(reason);
    ending.abort(new Error('the worker ended before it was ready'));
    // Its end shuts down the budgets' worker, which sends in progress may still ask.
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
    const { client } = connections;
    await waitUntilPolled(client, { namespace, taskQueue, identity, serverClock, logger, signal });
    // Again, because both may have started at the same time.
    await refuseOtherAddress(client, { namespace, taskQueue, identity, logger });
    signal.throwIfAborted();
    status.readiness = watchReadiness(client, keys, { namespace, taskQueue, serverClock });
    const clockProblem = serverClock.problem();
    if (clockProblem !== undefined) logger.warn(clockProblem);
    logger.info({ taskQueue, namespace, address }, 'The worker is ready for follow-ups');
  };
  const ready = becomeReady();
  let refusal: ConfigError | undefined;
  // Callers may ignore either. `run` and `ready` still pass their errors on.
  ready.catch((error: unknown) => {
    if (!(error instanceof ConfigError)) return;
    refusal = error;
    end(error.message);
  });
  stopped.catch(() => undefined);
  return {
    ready,
    statusUrl,
    identity,
    run: async () => {
      await stopped;
      if (refusal) throw refusal;
    },
    shutdown: async () => {
      end('shutting down');
      await stopped;
    },
  };
}

const LOOK_EVERY_MS = 250;

/**
 * Runs both workers until they have ended. A failed worker may never end, so its state counts, and the wait for both
 * ends has a limit.
 *
 * @param options.onEnd called when one of them no longer runs
 * @throws the first worker's error, or an error that they did not end
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

function shutDown(worker: Workers['budgets']): void {
  if (worker.getState() === 'RUNNING') worker.shutdown();
}

const shutdownSignals = ['SIGINT', 'SIGTERM', 'SIGQUIT', 'SIGHUP'] as const;

/**
 * Runs a worker until the process receives a signal to end, then waits for sends in progress. A second signal changes
 * nothing, because interrupting a send would leave its delivery unknown.
 *
 * @param start starts the worker. Its signal is aborted if a signal to end arrives first
 */
export async function runUntilSignal(
  start: (signal: AbortSignal) => Promise<WorkerService>,
  logger: Logger,
): Promise<void> {
  const stopping = new AbortController();
  let service: WorkerService | undefined;
  const onSignal = (name: NodeJS.Signals): void => {
    if (stopping.signal.aborted) {
      logger.warn({ signal: name }, 'Still shutting down: waiting for sends in progress');
      return;
    }
    logger.info({ signal: name }, 'Shutting down');
    stopping.abort(new Error(`ended by ${name}`));
    service?.shutdown().catch(() => undefined);
  };
  for (const name of shutdownSignals) process.on(name, onSignal);
  try {
    service = await start(stopping.signal);
    if (stopping.signal.aborted) await service.shutdown();
    await service.run();
  } catch (error) {
    if (service === undefined && stopping.signal.aborted) return;
    throw error;
  } finally {
    for (const name of shutdownSignals) process.off(name, onSignal);
  }
}
