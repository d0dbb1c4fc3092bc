import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { Connection, type ConnectionLike } from '@temporalio/client';
import { NativeConnection, type Worker } from '@temporalio/worker';
import type { Logger } from 'pino';
import { TemporalUnreachableError } from '../temporal/errors.js';
import { describeIgnoredProxies, type TemporalConfig, type TemporalConnectionOptions } from '../config/index.js';
import { formatDuration } from '../contract/index.js';
import {
  callRetries,
  describeGrpcError,
  GrpcStatus,
  grpcStatusOf,
  isPassingTrouble,
  WITHOUT_PROXY,
} from '../temporal/grpc.js';
import type { TemporalPlugin } from '../temporal/data-converter.js';
import { ReplaceableConnection } from './replaceable-connection.js';

/** The connections of a worker. */
export interface Connections {
  /** For the workers, when they are created. */
  native: NativeConnection;
  /** For ordinary calls. */
  client: ConnectionLike;
  /** For asks of the budget, without the interceptor that retries `ResourceExhausted` until the deadline. */
  acquire: ConnectionLike;
  /**
   * Connects again if the credentials have changed, and moves these clients and the workers to the new connections.
   * Calls under way end on the old ones.
   *
   * @returns whether they had changed
   * @throws when the new credentials cannot be read, or Temporal does not accept them; everything stays as it is
   */
  renew(workers: readonly Worker[]): Promise<boolean>;
  close(): Promise<void>;
}

/** How long a worker waits for Temporal before it gives up. */
const CONNECT_LIMIT_MS = 120_000;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 5_000;
/** Short, so that the log soon says what the worker waits for. */
const CONNECT_TIMEOUT_MS = 3_000;
const CALL_TIMEOUT_MS = 10_000;
/** After this time, every call that began on a connection has ended, with its retries. */
const CALLS_END_WITHIN_MS = 120_000;

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
  const { namespace } = temporal;
  let target: Target = {
    options: temporal.connectionOptions(),
    namespace,
    plugins,
    proxies: describeIgnoredProxies(temporal),
  };
  const first = await connectPatiently(target, logger, limitMs, signal);
  let current: OpenConnections;
  try {
    await onReached();
    current = await connectMore(first, target);
  } catch (error) {
    await first.close();
    throw new TemporalUnreachableError(temporal.address, describeGrpcError(error), undefined, { cause: error });
  }
  const client = new ReplaceableConnection(current.client);
  const acquire = new ReplaceableConnection(current.acquire);
  const replaced = new Set<OpenConnections>();

  return {
    client,
    acquire,
    native: current.native,
    async renew(workers) {
      const options = temporal.connectionOptions();
      if (isDeepStrictEqual(options, target.options)) return false;
      const renewed = { ...target, options };
      const old = current;
      current = await connectAll(renewed);
      target = renewed;
      client.replaceBy(current.client);
      acquire.replaceBy(current.acquire);
      replaced.add(old);
      for (const worker of workers) if (!hasEnded(worker)) worker.connection = current.native;
      setTimeout(() => {
        if (replaced.delete(old)) closeAll(old).catch(() => undefined);
      }, CALLS_END_WITHIN_MS).unref();
      return true;
    },
    async close() {
      const all = [...replaced, current];
      replaced.clear();
      await Promise.all(all.map(closeAll));
    },
  };
}

function hasEnded(worker: Worker): boolean {
  return ['STOPPED', 'FAILED'].includes(worker.getState());
}

/** What to connect to, and how. */
interface Target {
  options: TemporalConnectionOptions;
  namespace: string;
  plugins: TemporalPlugin[];
  /** See {@link describeIgnoredProxies}. */
  proxies: string;
}

interface OpenConnections {
  client: Connection;
  acquire: Connection;
  native: NativeConnection;
}

async function closeAll(connections: OpenConnections): Promise<void> {
  await Promise.all(Object.values(connections).map((connection: { close(): Promise<void> }) => connection.close()));
}

async function connectAll(target: Target): Promise<OpenConnections> {
  const client = await connectOnce(target);
  try {
    return await connectMore(client, target);
  } catch (error) {
    await client.close();
    throw error;
  }
}

/** Opens the other connections beside the first one, or none of them. */
async function connectMore(client: Connection, { options, plugins }: Target): Promise<OpenConnections> {
  const acquire = await Connection.connect({ ...options, channelArgs: WITHOUT_PROXY, plugins, interceptors: [] });
  try {
    return { client, acquire, native: await NativeConnection.connect({ ...options, plugins }) };
  } catch (error) {
    await acquire.close();
    throw error;
  }
}

async function connectPatiently(
  target: Target,
  logger: Logger,
  limitMs: number,
  signal: AbortSignal | undefined,
): Promise<Connection> {
  const {
    options: { address },
    namespace,
    proxies,
  } = target;
  const startedMs = performance.now();
  for (let retryMs = FIRST_RETRY_MS; ; retryMs = Math.min(retryMs * 2, LONGEST_RETRY_MS)) {
    signal?.throwIfAborted();
    try {
      return await connectOnce(target);
    } catch (error) {
      const isAway = isPassingTrouble(error) || grpcStatusOf(error) === undefined;
      const reason = `${describe(error, namespace)}${isAway ? proxies : ''}`;
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

/** Connects, and has the server answer, which tells whether it accepts the credentials. */
async function connectOnce({ options, namespace, plugins }: Target): Promise<Connection> {
  const connection = await Connection.connect({
    ...options,
    channelArgs: WITHOUT_PROXY,
    plugins,
    connectTimeout: CONNECT_TIMEOUT_MS,
    interceptors: callRetries(),
  });
  try {
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
