import { type Environment, loadConfig, loadTemporalConfig, type WorkerConfig } from '../config/index.js';
import { SearchAttribute } from '../contract/index.js';
import type { OnProgress } from '../embedded/environment.js';
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

/** Ports of the Temporal server that were asked for. One that is missing is its default, or any where that is taken. */
export interface DevPorts {
  port?: number;
  uiPort?: number;
}

/** Something that runs until it is stopped. */
interface Part {
  name: string;
  stop: () => Promise<void>;
}

/** Where Temporal is found without any setting, and where its UI mostly is. */
export const DEFAULT_PORTS = { port: 7233, uiPort: 8233 } as const;
const HOST = '127.0.0.1';

/** How long the simulated agent works on a message: long enough to be seen at work. */
const SIMULATED_TURN = { minMs: 1_000, maxMs: 2_500 };

/**
 * Starts Temporal unless one is configured, the simulated service unless a real one is configured, and a worker.
 *
 * @param say is told what goes on
 * @throws what the parts throw; then those that were started are stopped
 */
export async function startDevStack(
  cli: Cli,
  ports: DevPorts,
  say: OnProgress,
  signal: AbortSignal,
): Promise<DevStack> {
  const { output } = cli;
  const parts: Part[] = [];
  let isStopped = false;
  const stop = async () => {
    isStopped = true;
    for (const part of parts.splice(0).reverse()) {
      await part.stop().catch((error: unknown) => output.note(`${part.name}: ${String(error)}`));
    }
  };
  const keep = async (part: Part) => {
    parts.push(part);
    // Another part has failed, or Ctrl-C came, while this one started.
    if (isStopped) await stop();
  };
  let fail: (error: unknown) => void = () => undefined;
  const failed = new Promise<never>((_resolve, reject) => (fail = reject));
  failed.catch(() => undefined);

  const startTemporal = async () => {
    if (isTemporalConfigured(cli.env)) return undefined;
    const server = await startServer(cli.env, ports, say, signal);
    // It keeps everything in memory: an orderly end would take a second and save nothing.
    await keep({ name: 'Temporal', stop: () => server.kill() });
    void server.exited.then(() => fail(new Error(`the Temporal dev server has ended: ${server.lastOutput()}`)));
    return server;
  };
  const startService = async () => {
    if (isSet(cli.env, 'AGENT_JOBS_BASE_URL')) return undefined;
    const { startSimulator } = await import('../simulator/index.js');
    const simulator = await startSimulator({ autoCreate: true, turn: SIMULATED_TURN });
    await keep({ name: 'simulator', stop: () => simulator.close() });
    return simulator;
  };
  const importWorker = () => Promise.all([import('../worker.js'), import('../logging.js')]);

  try {
    if (cli.bundled) say('bundling the workflows');
    const [server, simulator, [{ startWorker }, { createLogger }]] = await Promise.all([
      startTemporal(),
      startService(),
      importWorker(),
      cli.bundled,
    ]);
    signal.throwIfAborted();
    let { env } = cli;
    if (server) {
      env = { ...without(env, 'TEMPORAL_'), TEMPORAL_ADDRESS: server.address, TEMPORAL_NAMESPACE: server.namespace };
    }
    if (simulator) {
      const { baseUrl, apiKey } = simulator;
      env = { ...without(env, 'AGENT_JOBS_API_'), AGENT_JOBS_BASE_URL: baseUrl, AGENT_JOBS_API_KEY: apiKey };
    }
    say('starting the worker');
    const config = await toWorkerConfig(env, output.stderr.isTTY === true);
    const worker = await startWorker({ config, logger: createLogger(config.logging), signal });
    await keep({ name: 'worker', stop: () => worker.shutdown() });
    worker.run().catch(fail);
    await worker.ready;
    const { address, namespace } = loadTemporalConfig(env);
    const { statusUrl } = worker;
    return {
      env,
      address,
      namespace,
      ...(server?.uiUrl !== undefined && { uiUrl: server.uiUrl }),
      ...(simulator && { simulatorUrl: simulator.baseUrl }),
      ...(statusUrl !== undefined && { statusUrl }),
      failed,
      stop,
    };
  } catch (error) {
    await stop();
    // What is interrupted fails for reasons of its own.
    throw signal.aborted ? signal.reason : error;
  }
}

/** A server is configured by an address, a profile or a file; also by a default file that names another address. */
export function isTemporalConfigured(env: Environment): boolean {
  const names = ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE'];
  return (
    names.some((name) => isSet(env, name)) || loadTemporalConfig(env).address !== `localhost:${DEFAULT_PORTS.port}`
  );
}

async function startServer(env: Environment, ports: DevPorts, say: OnProgress, signal: AbortSignal) {
  const [{ startDevServer }, { isPortFree }] = await Promise.all([
    import('../embedded/dev-server.js'),
    import('../embedded/ports.js'),
  ]);
  const choose = async (name: keyof DevPorts) => {
    if (ports[name] !== undefined) return { [name]: ports[name] };
    return (await isPortFree(DEFAULT_PORTS[name], HOST)) ? { [name]: DEFAULT_PORTS[name] } : {};
  };
  const chosen = await Promise.all([choose('port'), choose('uiPort')]);
  say('starting Temporal');
  return startDevServer({
    env,
    onProgress: say,
    signal,
    ui: true,
    searchAttributes: Object.values(SearchAttribute),
    ...chosen[0],
    ...chosen[1],
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

function isSet(env: Environment, name: string): boolean {
  return (env[name] ?? '').trim() !== '';
}

function without(env: Environment, prefix: string): Environment {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith(prefix)));
}
