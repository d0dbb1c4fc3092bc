import { InterceptingCall, type Interceptor, status } from '@grpc/grpc-js';
import { Client, Connection, defaultGrpcRetryOptions } from '@temporalio/client';
import { FollowUpClient, TemporalUnreachableError } from '../client/index.js';
import {
  describeIgnoredProxies,
  type Environment,
  isLoopbackHost,
  loadClientConfig,
  type TemporalConfig,
} from '../config/index.js';
import { dataConverterPlugin, loadDataConverter } from '../temporal/data-converter.js';
import { callRetries, cleanDetails, WITHOUT_PROXY } from '../temporal/grpc.js';
import { InterruptedError, type Output } from './cli.js';

export interface TemporalSession {
  config: TemporalConfig;
  taskQueue: string;
  connection: Connection;
  client: Client;
  followUps: FollowUpClient;
}

/**
 * Runs `use` with a connection, and closes it. Nothing is sent before the first call, which has its own deadline. If
 * nothing listens, stderr shows it at once, while the call is retried.
 *
 * @throws ConfigError
 */
export async function withTemporal<T>(
  { env, output }: { env: Environment; output: Pick<Output, 'note'> },
  use: (session: TemporalSession) => Promise<T>,
): Promise<T> {
  const { temporal: config, taskQueue, budget: budgetSettings } = loadClientConfig(env);
  const dataConverter = await loadDataConverter(config.dataConverterModule);
  const connection = Connection.lazy({
    ...config.connectionOptions(),
    channelArgs: WITHOUT_PROXY,
    interceptors: [...retryForSeconds(), sayWhenRefused(config, output)],
    plugins: dataConverter ? [dataConverterPlugin(dataConverter)] : [],
  });
  try {
    const client = new Client({ connection, namespace: config.namespace });
    const followUps = new FollowUpClient({ client, taskQueue, budgetSettings });
    return await use({ config, taskQueue, connection, client, followUps });
  } finally {
    await connection.close();
  }
}

/**
 * The SDK's own retries last 20 s with pauses of up to 5 s, past a call's deadline. These end after about 7 s, so that
 * the error shows why the server cannot be reached.
 */
function retryForSeconds() {
  return callRetries({
    ...defaultGrpcRetryOptions({ maxAttempts: 9 }),
    delayFunction: (attempt) => Math.min(1_000, 100 * 1.7 ** attempt),
  });
}

/** Notes once on stderr that the first call was refused, while it is retried. */
function sayWhenRefused(config: TemporalConfig, output: Pick<Output, 'note'>): Interceptor {
  const { address } = config;
  let isDone = false;
  return (options, nextCall) =>
    new InterceptingCall(nextCall(options), {
      start: (metadata, _listener, next) =>
        next(metadata, {
          onReceiveStatus: (received, pass) => {
            if (!isDone && received.code === status.UNAVAILABLE) {
              output.note(`${describeAbsence(address, received.details)}${describeIgnoredProxies(config)}`);
            }
            isDone = true;
            pass(received);
          },
        }),
    });
}

function describeAbsence(address: string, details: string): string {
  if (!details.includes('ECONNREFUSED')) return `no response from ${address} (${cleanDetails(details)}); still trying`;
  const isLocal = isLoopbackHost(address.replace(/:\d+$/, ''));
  return `nothing listens at ${address}; ${isLocal ? 'follow-up dev starts a server' : 'check TEMPORAL_ADDRESS'}`;
}

/** Notes on stderr if no worker polls the task queue, because the follow-up would wait for one. Never rejects. */
export async function sayWhenUnattended({ followUps }: TemporalSession, output: Output): Promise<void> {
  const idle = await followUps.idleTaskQueue().catch(() => undefined);
  if (idle !== undefined) output.note(`no worker gets the tasks of task queue ${idle}; run follow-up doctor`);
}

/**
 * Adds to an interruption, or to an error because Temporal is away, what continues without the command and how to
 * return to it. During a start, Temporal may have accepted the message without answering.
 */
export function withHint(error: unknown, workflowId: string, hint: string, isStart = false): unknown {
  const isAway = error instanceof TemporalUnreachableError;
  if (!isAway && !(error instanceof InterruptedError)) return error;
  const message = `${error.message}; ${hint}`;
  return Object.assign(error, { workflowId, message, ...(isAway && isStart && { delivered: 'unknown' }) });
}
