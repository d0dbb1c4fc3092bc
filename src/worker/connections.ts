import { setTimeout as sleep } from 'node:timers/promises';
import { Connection } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import type { Logger } from 'pino';
import { describeIgnoredProxies, type TemporalConfig } from '../config/index.js';
import { formatDuration } from '../contract/index.js';
import type { TemporalPlugin } from '../temporal/data-converter.js';
import { TemporalUnreachableError } from '../temporal/errors.js';
import {
  callRetries,
  describeGrpcError,
  GrpcStatus,
  grpcStatusOf,
  isPassingTrouble,
  WITHOUT_PROXY,
} from '../temporal/grpc.js';

/** The connections of a worker: one for the Temporal workers, and one for ordinary calls. */
export interface Connections {
  native: NativeConnection;
  client: Connection;
}

/** How {@link openConnections} connects. */
export interface ConnectOptions {
  logger: Logger;
  /** Ends the waiting. */
  signal?: AbortSignal;
  /** Every client and worker of the connections has them, too. */
  plugins: TemporalPlugin[];
  /** Called when Temporal answers, before the native connection is made. */
  onReached: () => Promise<void>;
}

/** How long a worker waits for Temporal before it gives up. */
const CONNECT_LIMIT_MS = 120_000;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 5_000;
/** Short, so that the log soon says what the worker waits for. */
const CONNECT_TIMEOUT_MS = 3_000;
const CALL_TIMEOUT_MS = 10_000;
/** Time between two looks at the file of the API key. */
const LOOK_EVERY_MS = 5_000;

/**
 * Connects, and waits while Temporal cannot be reached.
 *
 * @throws TemporalUnreachableError after 2 minutes, or at once if access is refused, because waiting cannot help
 */
export async function openConnections(temporal: TemporalConfig, options: ConnectOptions): Promise<Connections> {
  const { plugins, onReached } = options;
  const client = await connectPatiently(temporal, options);
  try {
    await onReached();
    return { client, native: await NativeConnection.connect({ ...temporal.connectionOptions(), plugins }) };
  } catch (error) {
    await client.close();
    throw new TemporalUnreachableError(temporal.address, describeGrpcError(error), undefined, { cause: error });
  }
}

/**
 * Moves both connections to a new key in `TEMPORAL_API_KEY_FILE` once Temporal accepts it. A key that cannot be used
 * changes nothing, and is tried again at each look. Resolves when `signal` is aborted, and never rejects.
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
        client.setApiKey(key);
        await native.setApiKey(key);
        apiKey = key;
        logger.info("Temporal's new API key is in use");
      }
      problem = undefined;
    } catch (error) {
      const reason = describeGrpcError(error);
      if (reason !== problem) logger.warn({ reason }, 'The new API key for Temporal cannot be used; the old one stays');
      problem = reason;
    }
    await sleep(LOOK_EVERY_MS, undefined, { signal, ref: false }).catch(() => undefined);
  }
}

async function connectPatiently(
  temporal: TemporalConfig,
  { logger, signal, plugins }: ConnectOptions,
): Promise<Connection> {
  const { address, namespace } = temporal;
  const startedMs = performance.now();
  for (let retryMs = FIRST_RETRY_MS; ; retryMs = Math.min(retryMs * 2, LONGEST_RETRY_MS)) {
    signal?.throwIfAborted();
    try {
      return await connectOnce(temporal, plugins);
    } catch (error) {
      const isAway = isPassingTrouble(error) || grpcStatusOf(error) === undefined;
      const reason = `${describe(error, namespace)}${isAway ? describeIgnoredProxies(temporal) : ''}`;
      const leftMs = CONNECT_LIMIT_MS - (performance.now() - startedMs);
      if (isRefusal(error) || leftMs <= retryMs) {
        throw new TemporalUnreachableError(address, reason, undefined, { cause: error });
      }
      logger.warn(
        { address, namespace, reason },
        `Waiting for Temporal at ${address}; giving up in ${formatDuration(leftMs)}`,
      );
      await sleep(retryMs, undefined, signal === undefined ? {} : { signal });
    }
  }
}

/** Connects, and has the server answer, which tells whether it accepts the credentials. */
async function connectOnce(temporal: TemporalConfig, plugins: TemporalPlugin[]): Promise<Connection> {
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

/** A missing namespace is none: deployments start servers, namespaces and workers in parallel. */
function isRefusal(error: unknown): boolean {
  const status = grpcStatusOf(error);
  return status === GrpcStatus.permissionDenied || status === GrpcStatus.unauthenticated;
}

function describe(error: unknown, namespace: string): string {
  if (grpcStatusOf(error) === GrpcStatus.notFound) return `it has no namespace ${namespace}`;
  return `${isRefusal(error) ? 'it refuses access: ' : ''}${describeGrpcError(error)}`;
}
