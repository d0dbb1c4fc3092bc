import type { Worker } from '@temporalio/worker';
import type { Logger } from 'pino';
import { describeGrpcError } from '../temporal/grpc.js';
import type { Connections } from './connections.js';
import { inRounds } from './rounds.js';

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
export function renewCredentials(connections: Connections, { workers, logger, signal }: RenewalOptions): Promise<void> {
  let problem: string | undefined;
  return inRounds(LOOK_EVERY_MS, signal, async () => {
    try {
      if (await connections.renew(workers)) logger.info("Temporal's new credentials are in use");
      problem = undefined;
    } catch (error) {
      const reason = describeGrpcError(error);
      if (reason !== problem) logger.warn({ reason }, 'New credentials for Temporal cannot be used; the old ones stay');
      problem = reason;
    }
  });
}
