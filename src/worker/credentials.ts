import { setTimeout as sleep } from 'node:timers/promises';
import type { Worker } from '@temporalio/worker';
import type { Logger } from 'pino';
import { describeGrpcError } from '../temporal/grpc.js';
import type { Connections } from './connections.js';

/** Time between two looks at the files of the credentials. */
const LOOK_EVERY_MS = 5_000;

/** What {@link renewCredentials} needs. */
export interface RenewalOptions {
  workers: readonly Worker[];
  logger: Logger;
  /** Ends it. */
  signal: AbortSignal;
}

/**
 * Moves a worker to new credentials for Temporal when their files change. Credentials that Temporal does not accept
 * change nothing, and are tried again at each look. Resolves when `signal` ends it.
 */
export async function renewCredentials(
  connections: Connections,
  { workers, logger, signal }: RenewalOptions,
): Promise<void> {
  let problem: string | undefined;
  const isOver = () => signal.aborted;
  while (!isOver()) {
    try {
      if (await connections.renew(workers)) logger.info("Temporal's new credentials are in use");
      problem = undefined;
    } catch (error) {
      const reason = describeGrpcError(error);
      if (reason !== problem) logger.warn({ reason }, 'New credentials for Temporal cannot be used; the old ones stay');
      problem = reason;
    }
    await sleep(LOOK_EVERY_MS, undefined, { signal, ref: false }).catch(() => undefined);
  }
}
