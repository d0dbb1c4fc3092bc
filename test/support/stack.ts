import { randomUUID } from 'node:crypto';
import { InterceptingCall, type Interceptor } from '@grpc/grpc-js';
import { Client, Connection } from '@temporalio/client';
import { startWorker, type StartWorkerOptions } from '../../src/worker.js';
import { FollowUpClient } from '../../src/client/index.js';
import { loadConfig } from '../../src/config/index.js';
import { createLogger } from '../../src/logging.js';
import { callRetries } from '../../src/temporal/grpc.js';
import { loadDataConverter } from '../../src/temporal/data-converter.js';
import { startSimulator, type Simulator, type SimulatorOptions } from '../../src/simulator/index.js';

/** A worker and a simulated service on a running Temporal server. */
export interface Stack {
  simulator: Simulator;
  client: Client;
  followUps: FollowUpClient;
  taskQueue: string;
  namespace: string;
  /** Address of the worker's status server. */
  statusUrl: string;
  /** Everything that the worker logged. */
  log(): string;
  stopWorker(): Promise<void>;
  stop(): Promise<void>;
}

/** Settings of {@link startStack}. */
export interface StackOptions {
  address: string;
  /** Settings of the worker beyond the addresses, as environment variables. */
  env?: Record<string, string>;
  simulator?: SimulatorOptions;
  /** @default a new one */
  taskQueue?: string;
  interceptors?: StartWorkerOptions['interceptors'];
}

/** On a busy machine, the answer to a query may take longer than the client waits for it. */
const QUERY_LIMIT_MS = 20_000;

/** Starts a worker as `follow-up worker` does, and a simulated service. */
export async function startStack({
  address,
  env = {},
  simulator: options = {},
  taskQueue = `e2e-${randomUUID()}`,
  interceptors,
}: StackOptions): Promise<Stack> {
  const simulator = await startSimulator({ turn: { minMs: 300, maxMs: 600 }, ...options });
  const config = loadConfig({
    TEMPORAL_ADDRESS: address,
    AGENT_JOBS_BASE_URL: simulator.baseUrl,
    AGENT_JOBS_API_KEY: simulator.apiKey,
    FOLLOW_UP_TASK_QUEUE: taskQueue,
    FOLLOW_UP_STATUS_ADDRESS: '127.0.0.1:0',
    FOLLOW_UP_LOG_LEVEL: 'debug',
    FOLLOW_UP_LOG_FORMAT: 'json',
    ...env,
  });
  const lines: string[] = [];
  const logger = createLogger(config.logging, { write: (line: string) => void lines.push(line) });
  const worker = await startWorker({ config, logger, ...(interceptors && { interceptors }) });
  await worker.ready;
  let hasWorker = true;
  const patient: Interceptor = (options, nextCall) => {
    const isQuery = options.method_definition.path.endsWith('/QueryWorkflow');
    return new InterceptingCall(
      nextCall(isQuery && hasWorker ? { ...options, deadline: Date.now() + QUERY_LIMIT_MS } : options),
    );
  };
  const connection = await Connection.connect({ address, interceptors: [...callRetries(), patient] });
  const { namespace } = config.temporal;
  const dataConverter = await loadDataConverter(config.temporal.dataConverterModule);
  const client = new Client({ connection, namespace, ...(dataConverter && { dataConverter }) });
  return {
    simulator,
    client,
    followUps: new FollowUpClient({ client, taskQueue }),
    taskQueue,
    namespace,
    statusUrl: worker.statusUrl ?? '',
    log: () => lines.join(''),
    stopWorker: () => {
      hasWorker = false;
      return worker.shutdown();
    },
    async stop() {
      await worker.shutdown();
      await connection.close();
      await simulator.close();
    },
  };
}

/** Polls often enough for tests. */
export const FAST = {
  poll: { initialInterval: '200ms', maxInterval: '500ms' },
  settleTime: '5s',
  prLinkGrace: '0s',
} as const;
