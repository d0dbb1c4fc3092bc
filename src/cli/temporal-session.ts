import { Client, Connection, defaultGrpcRetryOptions } from '@temporalio/client';
import { FollowUpClient } from '../client/index.js';
import {
  type Environment,
  loadBudgetSettings,
  loadTaskQueue,
  loadTemporalConfig,
  type TemporalConfig,
} from '../config.js';
import { callRetries } from '../temporal/call-retries.js';

/** A connection of Temporal and what a command does with it. */
export interface TemporalSession {
  config: TemporalConfig;
  taskQueue: string;
  connection: Connection;
  client: Client;
  followUps: FollowUpClient;
}

/**
 * Runs `use` with a connection, and closes it. Nothing is sent before the first call, which has a deadline of its own.
 *
 * @throws ConfigError
 */
export async function withTemporal<T>(env: Environment, use: (session: TemporalSession) => Promise<T>): Promise<T> {
  const config = loadTemporalConfig(env);
  const taskQueue = loadTaskQueue(env);
  const budgetSettings = loadBudgetSettings(env);
  const connection = Connection.lazy({ ...config.connectionOptions(), interceptors: retryForSeconds() });
  try {
    const client = new Client({ connection, namespace: config.namespace });
    const followUps = new FollowUpClient({ client, taskQueue, budgetSettings });
    return await use({ config, taskQueue, connection, client, followUps });
  } finally {
    await connection.close();
  }
}

/**
 * The SDK's own retries go on for 20 s with pauses of up to 5 s, past a call's deadline. These end after about 7 s, so
 * that somebody at a terminal hears why the server cannot be reached, and not only that time is up.
 */
function retryForSeconds() {
  return callRetries({
    ...defaultGrpcRetryOptions({ maxAttempts: 9 }),
    delayFunction: (attempt) => Math.min(1_000, 100 * 1.7 ** attempt),
  });
}
