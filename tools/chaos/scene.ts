import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import type { SimulatorOptions } from '../../src/simulator/index.js';
import { Lane, type Budget } from './lane.js';
import { startOracle, type Oracle, type TlsFiles } from './oracle-process.js';
import { randomOf, type ScenarioOptions } from './scenario.js';
import type { Random } from '../../src/simulator/random.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';

/** What a scenario plays on: the service, a client and lanes. */
export interface Scene {
  readonly oracle: Oracle;
  readonly client: Client;
  readonly random: Random;
  readonly lanes: readonly Lane[];
  readonly startedAtMs: number;
}

/** Options of {@link withScene}. */
export interface SceneOptions extends ScenarioOptions {
  name: string;
  lanes: number;
  /** Address of Temporal for the workers. @default `address` */
  workerAddress?: string | undefined;
  service?: SimulatorOptions;
  tls?: TlsFiles | undefined;
  budget?: Budget;
  /** Further settings of the workers. */
  env?: Readonly<Record<string, string>>;
}

/** Sets up the service, a connection to Temporal and lanes, and takes them down in any case. */
export async function withScene<T>(options: SceneOptions, play: (scene: Scene) => Promise<T>): Promise<T> {
  const { name, seed, address, tls } = options;
  const random = randomOf(name, seed);
  const runId = options.runId ?? randomUUID().slice(0, 8);
  const connection = await Connection.connect({ address });
  const client = new Client({ connection });
  // Otherwise a worker makes them, but follow-ups start before any worker.
  await ensureSearchAttributes(connection, client.options.namespace);
  const oracle = await startOracle({ seed, ...options.service }, tls);
  try {
    const lanes = Array.from(
      { length: options.lanes },
      (_, index) =>
        new Lane({
          name: `${name}-${runId}-${index}`,
          client,
          address: options.workerAddress ?? address,
          oracle,
          random: random.fork(`lane ${index}`),
          budget: options.budget,
          ...(options.env && { env: options.env }),
        }),
    );
    return await play({ oracle, client, random, lanes, startedAtMs: Date.now() });
  } finally {
    await oracle.stop();
    await connection.close();
  }
}
