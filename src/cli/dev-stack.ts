import { type Environment, loadConfig, loadTemporalConfig, type WorkerConfig } from '../config.js';
import { SearchAttribute } from '../contract/index.js';
import type { Cli } from './cli.js';

/** Everything that `follow-up dev` runs. */
export interface DevStack {
  /** The environment with the addresses of what was started. */
  env: Environment;
  address: string;
  namespace: string;
  /** Missing where the server is not ours. */
  uiUrl?: string;
  /** Missing where the service is a real one. */
  simulatorUrl?: string;
  statusUrl?: string;
  /** Rejects when a part ends by itself; never resolves. */
  failed: Promise<never>;
  /** Stops all parts that were started, in order. Never rejects. */
  stop(): Promise<void>;
}

const GRPC_PORT = 7233;
const UI_PORT = 8233;
const HOST = '127.0.0.1';

/**
 * Starts Temporal unless one is configured, the simulated service unless a real one is configured, and a worker.
 *
 * @throws what the parts throw; then those that were started are stopped
 */
export async function startDevStack(cli: Cli, signal: AbortSignal): Promise<DevStack> {
  const { output } = cli;
  const stops: { name: string; stop: () => Promise<void> }[] = [];
  const stop = async () => {
    for (const part of stops.splice(0).reverse()) {
      await part.stop().catch((error: unknown) => output.note(`${part.name}: ${String(error)}`));
    }
  };
  let fail: (error: unknown) => void = () => undefined;
  const failed = new Promise<never>((_resolve, reject) => (fail = reject));
  failed.catch(() => undefined);
  try {
    let env = cli.env;
    let uiUrl: string | undefined;
    if (!isTemporalConfigured(env)) {
      const server = await startServer(cli);
      stops.push({ name: 'Temporal', stop: () => server.stop() });
      void server.exited.then(() => fail(new Error(`the Temporal dev server has ended: ${server.lastOutput()}`)));
      env = { ...without(env, 'TEMPORAL_'), TEMPORAL_ADDRESS: server.address, TEMPORAL_NAMESPACE: server.namespace };
      uiUrl = server.uiUrl;
    }
    signal.throwIfAborted();
    let simulatorUrl: string | undefined;
    if (!isSet(env, 'AGENT_JOBS_BASE_URL')) {
      const { startSimulator } = await import('../simulator/index.js');
      const simulator = await startSimulator({ autoCreate: true, turn: { minMs: 2_000, maxMs: 5_000 } });
      stops.push({ name: 'simulator', stop: () => simulator.close() });
      const { baseUrl, apiKey } = simulator;
      env = { ...without(env, 'AGENT_JOBS_API_'), AGENT_JOBS_BASE_URL: baseUrl, AGENT_JOBS_API_KEY: apiKey };
      simulatorUrl = baseUrl;
    }
    output.note('starting the worker');
    const worker = await startDevWorker(await toWorkerConfig(env, output.stderr.isTTY === true), signal);
    stops.push({ name: 'worker', stop: () => worker.shutdown() });
    worker.run().catch(fail);
    await worker.ready;
    const { address, namespace } = loadTemporalConfig(env);
    const { statusUrl } = worker;
    return {
      env,
      address,
      namespace,
      ...(uiUrl !== undefined && { uiUrl }),
      ...(simulatorUrl !== undefined && { simulatorUrl }),
      ...(statusUrl !== undefined && { statusUrl }),
      failed,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** A server is configured by an address, a profile or a file; also by a default file that names another address. */
function isTemporalConfigured(env: Environment): boolean {
  const names = ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE'];
  return names.some((name) => isSet(env, name)) || loadTemporalConfig(env).address !== `localhost:${GRPC_PORT}`;
}

async function startServer({ env, output }: Cli) {
  const [{ startDevServer }, { isPortFree }] = await Promise.all([
    import('../embedded/dev-server.js'),
    import('../embedded/ports.js'),
  ]);
  const [isGrpcFree, isUiFree] = await Promise.all([isPortFree(GRPC_PORT, HOST), isPortFree(UI_PORT, HOST)]);
  output.note('starting Temporal');
  return startDevServer({
    env,
    onProgress: (message) => output.note(message),
    ui: true,
    searchAttributes: Object.values(SearchAttribute),
    ...(isGrpcFree && { port: GRPC_PORT }),
    ...(isUiFree && { uiPort: UI_PORT }),
  });
}

/** The worker's settings, quieter than those of a worker on its own, and with any free status port. */
async function toWorkerConfig(env: Environment, isTerminal: boolean): Promise<WorkerConfig> {
  const { isPortFree } = await import('../embedded/ports.js');
  const config = loadConfig({
    ...env,
    FOLLOW_UP_LOG_LEVEL: env['FOLLOW_UP_LOG_LEVEL'] ?? 'error',
    FOLLOW_UP_LOG_FORMAT: env['FOLLOW_UP_LOG_FORMAT'] ?? (isTerminal ? 'pretty' : 'json'),
  });
  const { status } = config;
  if (!status || isSet(env, 'FOLLOW_UP_STATUS_ADDRESS') || (await isPortFree(status.port, status.host))) return config;
  return { ...config, status: { ...status, port: 0 } };
}

async function startDevWorker(config: WorkerConfig, signal: AbortSignal) {
  const [{ startWorker }, { createLogger }] = await Promise.all([import('../worker.js'), import('../logging.js')]);
  return startWorker({ config, logger: createLogger(config.logging), signal });
}

function isSet(env: Environment, name: string): boolean {
  return (env[name] ?? '').trim() !== '';
}

function without(env: Environment, prefix: string): Environment {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith(prefix)));
}
