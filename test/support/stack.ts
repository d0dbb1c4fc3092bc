import { randomUUID } from 'node:crypto';
import { InterceptingCall, type Interceptor } from '@grpc/grpc-js';
import { Client, Connection } from '@temporalio/client';
import { FollowUpClient } from '../../src/client/index.js';
import { loadConfig } from '../../src/config/index.js';
import {
  type Simulator,
  type SimulatorHooks,
  type SimulatorOptions,
  startSimulator,
} from '../../src/simulator/index.js';
import { loadDataConverter } from '../../src/temporal/data-converter.js';
import { callRetries } from '../../src/temporal/grpc.js';
import { startWorker, type StartWorkerOptions } from '../../src/worker.js';
import { createLogger } from '../../src/worker/logging.js';

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
  /** Options of the worker beyond its configuration. */
  worker?: Pick<StartWorkerOptions, 'interceptors'>;
  /** How long after its grant a send has ended. @default the send timeout and 30 s */
  leaseMs?: number;
  /** What the test adds to the service. */
  hooks?: SimulatorHooks;
}

/** On a busy machine, the answer to a query or an update may take longer than the client waits for it. */
const CALL_LIMIT_MS = 20_000;
const patientCalls = [
  'QueryWorkflow',
  'UpdateWorkflowExecution',
  'PollWorkflowExecutionUpdate',
  'ExecuteMultiOperation',
];

/**
 * A connection whose queries and updates have the time that a busy machine needs.
 *
 * @param hasWorker without one, they fail as soon as the client says
 */
export function connectPatiently(address: string, hasWorker: () => boolean = () => true): Promise<Connection> {
  const patient: Interceptor = (options, nextCall) => {
    const { deadline = Infinity, method_definition } = options;
    const isPatient = hasWorker() && patientCalls.some((name) => method_definition.path.endsWith(`/${name}`));
    const atLeastMs = isPatient ? Date.now() + CALL_LIMIT_MS : 0;
    return new InterceptingCall(nextCall(+deadline < atLeastMs ? { ...options, deadline: atLeastMs } : options));
  };
  return Connection.connect({ address, interceptors: [...callRetries(), patient] });
}

/** Starts a worker as `follow-up worker` does, and a simulated service. */
export async function startStack({
  address,
  env = {},
  simulator: options = {},
  taskQueue = `e2e-${randomUUID()}`,
  worker: workerOptions,
  leaseMs,
  hooks,
}: StackOptions): Promise<Stack> {
  const simulator = await startSimulator({ turn: { minMs: 300, maxMs: 600 }, ...options }, hooks);
  const loaded = loadConfig({
    TEMPORAL_ADDRESS: address,
    AGENT_JOBS_BASE_URL: simulator.baseUrl,
    AGENT_JOBS_API_KEY: simulator.apiKey,
    FOLLOW_UP_TASK_QUEUE: taskQueue,
    FOLLOW_UP_STATUS_ADDRESS: '127.0.0.1:0',
    FOLLOW_UP_LOG_LEVEL: 'debug',
    FOLLOW_UP_LOG_FORMAT: 'json',
    ...env,
  });
  const config = { ...loaded, leaseMs: leaseMs ?? loaded.leaseMs };
  const lines: string[] = [];
  const logger = createLogger(config.logging, { write: (line: string) => void lines.push(line) });
  const worker = await startWorker({ config, logger, ...workerOptions });
  await worker.ready;
  let hasWorker = true;
  const connection = await connectPatiently(address, () => hasWorker);
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

/** Polls often enough for tests, and believes at once what the job shows: the simulated service tells no old news. */
export const FAST = {
  poll: { initialInterval: '200ms', maxInterval: '500ms' },
  settleTime: '0s',
  prLinkGrace: '0s',
} as const;
