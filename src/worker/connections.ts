import { setTimeout as sleep } from 'node:timers/promises';
import { Connection } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import type { Logger } from 'pino';
import { describeIgnoredProxies, type TemporalConfig } from '../config/index.js';
import { formatDuration } from '../contract/index.js';
import type { TemporalPlugin } from '../temporal/data-converter.js';
import {
  callRetries,
  describeGrpcError,
  GrpcStatus,
  grpcStatusOf,
  isAccessRefused,
  isBadHeader,
  isPassingTrouble,
  pause,
  WITHOUT_PROXY,
} from '../temporal/grpc.js';
import { TemporalUnreachableError } from '../temporal/unreachable-error.js';

/** A worker's connections: one for the Temporal workers, and one for other calls. */
export interface Connections {
  native: NativeConnection;
  client: Connection;
}

const CONNECT_LIMIT_MS = 120_000;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 5_000;
/** Short, so that the log soon shows what the worker waits for. */
const CONNECT_TIMEOUT_MS = 3_000;
const CALL_TIMEOUT_MS = 10_000;
const LOOK_EVERY_MS = 5_000;

/**
 * Connects, and waits while Temporal cannot be reached.
 *
 * @param options.plugins also for every client and worker of the connections
 * @param options.onReached called when Temporal answers, before the native connection is made
 * @throws TemporalUnreachableError after 2 minutes, or at once if access is refused, because waiting cannot help
 */
export async function openConnections(
  temporal: TemporalConfig,
  options: { logger: Logger; signal?: AbortSignal; plugins: TemporalPlugin[]; onReached: () => Promise<void> },
): Promise<Connections> {
  const { address, namespace } = temporal;
  const { logger, signal, plugins, onReached } = options;
  const endMs = performance.now() + CONNECT_LIMIT_MS;
  let client: Connection | undefined;
  for (let retryMs = FIRST_RETRY_MS; client === undefined; retryMs = Math.min(retryMs * 2, LONGEST_RETRY_MS)) {
    signal?.throwIfAborted();
    try {
      client = await connect(temporal, plugins);
    } catch (error) {
      const leftMs = endMs - performance.now();
      const reason = describe(error, temporal);
      // A missing namespace is no refusal: deployments start servers, namespaces and workers in parallel.
      if (isAccessRefused(error) || leftMs <= retryMs) throw unreachable(address, reason, error);
      const fields = { address, namespace, reason };
      logger.warn(fields, `Waiting for Temporal at ${address}; giving up in ${formatDuration(leftMs)}`);
      await pause(retryMs, signal);
    }
  }
  try {
    await onReached();
    const connecting = NativeConnection.connect({ ...temporal.connectionOptions(), plugins });
    const native = await connecting.catch((error: unknown) => {
      throw unreachable(address, describeGrpcError(error), error);
    });
    return { client, native };
  } catch (error) {
    await client.close();
    throw error;
  }
}

/** The error of a bad header is not passed on: it quotes the header, which may be the API key. */
function unreachable(address: string, reason: string, cause: unknown): TemporalUnreachableError {
  return new TemporalUnreachableError(address, reason, undefined, isBadHeader(cause) ? {} : { cause });
}

/** Connects, and calls the server to check that it accepts the credentials. */
async function connect(temporal: TemporalConfig, plugins: TemporalPlugin[]): Promise<Connection> {
  const connection = await Connection.connect({
    ...temporal.connectionOptions(),
    channelArgs: WITHOUT_PROXY,
    plugins,
    connectTimeout: CONNECT_TIMEOUT_MS,
    interceptors: callRetries(),
  });
  try {
    await describeNamespace(connection, temporal.namespace);
    return connection;
  } catch (error) {
    await connection.close();
    throw error;
  }
}

async function describeNamespace(connection: Connection, namespace: string): Promise<void> {
  await connection.withDeadline(Date.now() + CALL_TIMEOUT_MS, () =>
    connection.workflowService.describeNamespace({ namespace }),
  );
}

function describe(error: unknown, temporal: TemporalConfig): string {
  if (grpcStatusOf(error) === GrpcStatus.NOT_FOUND) return `it has no namespace ${temporal.namespace}`;
  const reason = describeGrpcError(error);
  const isAway = isPassingTrouble(error) || grpcStatusOf(error) === undefined;
  return isAway ? `${reason}${describeIgnoredProxies(temporal)}` : reason;
}

/**
 * Moves both connections to a new key in `TEMPORAL_API_KEY_FILE` once Temporal accepts it. An unusable key changes
 * nothing, and is retried at each check. Resolves when `signal` is aborted, and never rejects.
 */
export async function followApiKey(
  { client, native }: Connections,
  { namespace, connectionOptions, readKeyFile }: TemporalConfig,
  { logger, signal }: { logger: Logger; signal: AbortSignal },
): Promise<void> {
  if (readKeyFile === undefined) return;
  let { apiKey } = connectionOptions();
  let problem: string | undefined;
  while (!signal.aborted) {
    try {
      const key = readKeyFile();
      if (key !== apiKey) {
        await client.withApiKey(key, () => describeNamespace(client, namespace));
        await native.setApiKey(key);
        client.setApiKey(key);
        apiKey = key;
        logger.info("Temporal's new API key is in use");
      }
      problem = undefined;
    } catch (error) {
      const reason = describeGrpcError(error);
      if (reason !== problem)
        logger.warn({ reason }, 'The new API key for Temporal cannot be used; the old one stays in use');
      problem = reason;
    }
    await sleep(LOOK_EVERY_MS, undefined, { signal, ref: false }).catch(() => undefined);
  }
}
