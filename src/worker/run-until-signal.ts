import type { Logger } from 'pino';
import type { WorkerService } from '../worker.js';

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
