import { Client, Connection } from '@temporalio/client';
import { FollowUpClient } from '../client/index.js';
import { type Environment, loadTaskQueue, loadTemporalConfig, type TemporalConfig } from '../config.js';

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
  const connection = Connection.lazy(config.connectionOptions());
  try {
    const client = new Client({ connection, namespace: config.namespace });
    return await use({ config, taskQueue, connection, client, followUps: new FollowUpClient({ client, taskQueue }) });
  } finally {
    await connection.close();
  }
}
