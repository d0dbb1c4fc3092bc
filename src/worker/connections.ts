import { setTimeout as sleep } from 'node:timers/promises';
import { Connection } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import type { Logger } from 'pino';
import { TemporalUnreachableError } from '../client/errors.js';
import type { TemporalConfig } from '../config/index.js';
import { formatDuration } from '../contract/index.js';
import { callRetries, describeGrpcError, GrpcStatus, grpcStatusOf } from '../temporal/grpc.js';
import type { TemporalPlugin } from '../temporal/data-converter.js';

/** The connections of a worker. */
export interface Connections {
  /** For the workers. */
  native: NativeConnection;
  /** For ordinary calls. */
  client: Connection;
  /** For asks of the budget, without the interceptor that retries `ResourceExhausted` until the deadline. */
  acquire: Connection;
  close(): Promise<void>;
}

/** How long a worker waits for Temporal before it gives up. */
const CONNECT_LIMIT_MS = 120_000;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 5_000;
/** Short, so that the log soon says what the worker waits for. */
const CONNECT_TIMEOUT_MS = 3_000;
const CALL_TIMEOUT_MS = 10_000;

/**
 * Connects, and waits while Temporal cannot be reached.
 *
 * @param plugins are those of every client and worker of the connections, too
 * @param onReached called when Temporal answers, before the native connection is made
 * @throws TemporalUnreachableError after 2 minutes, or at once if access is refused, because waiting cannot help
 */
export async function openConnections(
  temporal: TemporalConfig,
  {
    logger,
    signal,
    limitMs = CONNECT_LIMIT_MS,
    onReached,
    plugins,
  }: {
    logger: Logger;
    signal?: AbortSignal;
    limitMs?: number;
    onReached: () => Promise<void>;
    plugins: TemporalPlugin[];
  },
): Promise<Connections> {
  const client = await connectPatiently(temporal, plugins, logger, limitMs, signal);
  const opened: { close(): Promise<void> }[] = [client];
  const close = async (): Promise<void> => {
    await Promise.all(opened.map((connection) => connection.close()));
  };
  try {
    await onReached();
    const acquire = await Connection.connect({ ...temporal.connectionOptions(), plugins, interceptors: [] });
    opened.push(acquire);
    const native = await NativeConnection.connect({ ...temporal.connectionOptions(), plugins });
    opened.push(native);
    return { client, acquire, native, close };
  } catch (error) {
    await close();
    throw new TemporalUnreachableError(temporal.address, describeGrpcError(error), undefined, { cause: error });
  }
}

async function connectPatiently(
  temporal: TemporalConfig,
  plugins: TemporalPlugin[],
  logger: Logger,
  limitMs: number,
  signal: AbortSignal | undefined,
): Promise<Connection> {
  const { address, namespace } = temporal;
  const startedMs = performance.now();
  for (let retryMs = FIRST_RETRY_MS; ; retryMs = Math.min(retryMs * 2, LONGEST_RETRY_MS)) {
    signal?.throwIfAborted();
    try {
      return await connectOnce(temporal, plugins);
    } catch (error) {
      const reason = describe(error, namespace);
      const leftMs = limitMs - (performance.now() - startedMs);
      if (isHopeless(error) || leftMs <= retryMs) {
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

async function connectOnce(temporal: TemporalConfig, plugins: TemporalPlugin[]): Promise<Connection> {
  const connection = await Connection.connect({
    ...temporal.connectionOptions(),
    plugins,
    connectTimeout: CONNECT_TIMEOUT_MS,
    interceptors: callRetries(),
  });
  try {
    const { namespace } = temporal;
    await connection.withDeadline(Date.now() + CALL_TIMEOUT_MS, () =>
      connection.workflowService.describeNamespace({ namespace }),
    );
    return connection;
  } catch (error) {
    await connection.close();
    throw error;
  }
}

/**
 * Whether waiting cannot help. A missing namespace may still appear: deployments start servers, namespaces and workers
 * in parallel.
 */
function isHopeless(error: unknown): boolean {
  const status = grpcStatusOf(error);
  return status === GrpcStatus.permissionDenied || status === GrpcStatus.unauthenticated;
}

function describe(error: unknown, namespace: string): string {
  switch (grpcStatusOf(error)) {
    case GrpcStatus.notFound:
      return `it has no namespace ${namespace}`;
    case GrpcStatus.permissionDenied:
    case GrpcStatus.unauthenticated:
      return `it refuses access: ${describeGrpcError(error)}`;
    default:
      return describeGrpcError(error);
  }
}
