import { InterceptingCall, type Interceptor, status } from '@grpc/grpc-js';
import { Client, Connection, defaultGrpcRetryOptions } from '@temporalio/client';
import { FollowUpClient } from '../client/index.js';
import { readPollers } from '../client/trouble.js';
import { describeIgnoredProxies, type Environment, loadClientConfig, type TemporalConfig } from '../config/index.js';
import { budgetTaskQueue } from '../contract/index.js';
import { dataConverterPlugin, loadDataConverter } from '../temporal/data-converter.js';
import { callRetries, WITHOUT_PROXY } from '../temporal/grpc.js';
import { startTracing } from '../temporal/tracing.js';
import { safeLine } from '../terminal-text.js';
import type { Output } from './cli.js';
import { isLoopbackHost } from '../agent-jobs/base-url.js';

/** A connection to Temporal, and the clients on it. */
export interface TemporalSession {
  config: TemporalConfig;
  taskQueue: string;
  connection: Connection;
  client: Client;
  followUps: FollowUpClient;
}

/**
 * Runs `use` with a connection, and closes it. Nothing is sent before the first call, which has its own deadline.
 * If the server does not answer, stderr says so at once, while the call is retried.
 *
 * @throws ConfigError
 */
export async function withTemporal<T>(
  { env, output }: { env: Environment; output: Pick<Output, 'note'> },
  use: (session: TemporalSession) => Promise<T>,
): Promise<T> {
  const { temporal: config, taskQueue, budget: budgetSettings } = loadClientConfig(env);
  const dataConverter = await loadDataConverter(config.dataConverterModule);
  const tracing = await startTracing(env);
  const connection = Connection.lazy({
    ...config.connectionOptions(),
    channelArgs: WITHOUT_PROXY,
    interceptors: [...retryForSeconds(), sayWhenSilent(config, output)],
    plugins: [...(dataConverter ? [dataConverterPlugin(dataConverter)] : []), ...(tracing ? [tracing.plugin] : [])],
  });
  try {
    const client = new Client({ connection, namespace: config.namespace });
    const followUps = new FollowUpClient({ client, taskQueue, budgetSettings });
    return await use({ config, taskQueue, connection, client, followUps });
  } finally {
    await connection.close();
    await tracing?.close();
  }
}

/**
 * The SDK's own retries last 20 s with pauses of up to 5 s, past a call's deadline. These end after about 7 s, so
 * that the error tells why the server cannot be reached, and not only that time is up.
 */
function retryForSeconds() {
  return callRetries({
    ...defaultGrpcRetryOptions({ maxAttempts: 9 }),
    delayFunction: (attempt) => Math.min(1_000, 100 * 1.7 ** attempt),
  });
}

/** After this time without a first answer, the command says that it waits. */
const SILENT_AFTER_MS = 900;

/**
 * Says once on stderr that the server refuses the first call, or has not answered it yet. Sees each attempt of a call.
 */
function sayWhenSilent(config: TemporalConfig, output: Pick<Output, 'note'>): Interceptor {
  const { address } = config;
  const proxies = describeIgnoredProxies(config);
  let isSettled = false;
  const settle = (text?: string) => {
    if (!isSettled && text !== undefined) output.note(`${text}${proxies}`);
    isSettled = true;
  };
  return (options, nextCall) => {
    const call = nextCall(options);
    if (isSettled) return new InterceptingCall(call);
    const timer = setTimeout(() => settle(`no answer from ${address} yet; still trying`), SILENT_AFTER_MS).unref();
    return new InterceptingCall(call, {
      start: (metadata, _listener, next) =>
        next(metadata, {
          onReceiveStatus: (answer, pass) => {
            clearTimeout(timer);
            settle(answer.code === status.UNAVAILABLE ? describeAbsence(address, answer.details) : undefined);
            pass(answer);
          },
        }),
    });
  };
}

function describeAbsence(address: string, details: string): string {
  if (!details.includes('ECONNREFUSED')) return `no answer from ${address} (${safeLine(details)}); still trying`;
  const isLocal = isLoopbackHost(address.replace(/:\d+$/, ''));
  return `nothing listens at ${address}; ${isLocal ? 'follow-up dev starts a server' : 'check TEMPORAL_ADDRESS'}`;
}

/** How long a command waits for the pollers before it continues. */
const POLLERS_TIMEOUT_MS = 1_000;

/** Says on stderr if no worker polls the task queue, since the follow-up would wait for one. Never rejects. */
export async function sayWhenUnattended(session: TemporalSession, output: Output): Promise<void> {
  const idle = await findIdleQueue(session, POLLERS_TIMEOUT_MS).catch(() => undefined);
  if (idle !== undefined) output.note(`no worker polls task queue ${idle}; run follow-up doctor`);
}

/**
 * A task queue that no worker polls; `undefined` if both are polled.
 *
 * @throws TemporalUnreachableError
 */
export async function findIdleQueue(
  { client, taskQueue }: Pick<TemporalSession, 'client' | 'taskQueue'>,
  timeoutMs: number,
): Promise<string | undefined> {
  const queues = [taskQueue, budgetTaskQueue(taskQueue)];
  const pollers = await Promise.all(queues.map((name) => readPollers(client, name, 'workflow', timeoutMs)));
  return queues.find((_, index) => pollers[index]?.length === 0);
}
