import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { InvalidInputError } from '../client/index.js';
import { loadConfig } from '../config/index.js';
import { defined } from '../contract/defined.js';
import { parseDurationMs } from '../contract/index.js';
import type { SimulatorOptions } from '../simulator/index.js';
import { decodeUtf8 } from '../text-file.js';
import { type Cli, ExitCode, interruptible, UsageError } from './cli.js';

/** How long a process whose worker has failed may take to end by itself: Temporal's threads may keep it. */
const EXIT_WITHIN_MS = 5_000;

/** `follow-up worker` */
export async function runWorker({ env, io, output, bundled }: Cli): Promise<void> {
  const config = loadConfig(env, output.stderr.isTTY === true ? 'pretty' : 'json');
  // Stack traces of a worker must point to the sources; for short commands loading the maps would take too long.
  process.setSourceMapsEnabled(true);
  // The worker's native code takes a second to load, so only commands that need it load it.
  const [{ runUntilSignal, startWorker }, { createLogger }] = await Promise.all([
    import('../worker.js'),
    import('../logging.js'),
    bundled,
  ]);
  const logger = createLogger(config.logging);
  await runUntilSignal(async (signal) => {
    const service = await startWorker({ config, logger, signal });
    const { identity, statusUrl, ready } = service;
    const { taskQueue } = config;
    // If the worker ends before it is ready, its run reports why.
    ready.then(
      () => output.data({ identity, taskQueue, statusUrl }, `worker ${identity} takes follow-ups from ${taskQueue}`),
      () => undefined,
    );
    service.run().catch(() => setTimeout(() => io.exit(ExitCode.error), EXIT_WITHIN_MS).unref());
    return service;
  }, logger);
}

/** Checked as options of the simulator. */
interface SimulatorCommandOptions {
  host?: string;
  port?: unknown;
  limit?: unknown;
  window?: unknown;
  turn?: unknown;
  seed?: unknown;
  autoCreate: boolean;
  ledgerFile?: string;
  options?: string;
}

/** `follow-up simulator` */
export async function runSimulator(cli: Cli, options: SimulatorCommandOptions): Promise<void> {
  // A worker has no use for it.
  const { simulatorOptionsSchema, startSimulator } = await import('../simulator/index.js');
  const settings = InvalidInputError.check<unknown>(simulatorOptionsSchema, await toSimulatorOptions(options));
  const { output } = cli;
  await interruptible(cli, async (signal) => {
    const simulator = await startSimulator(settings as SimulatorOptions);
    try {
      const { baseUrl, apiKey } = simulator;
      const lines = `AGENT_JOBS_BASE_URL=${baseUrl}\nAGENT_JOBS_API_KEY=${apiKey}`;
      output.data({ baseUrl, apiKey }, lines, (line) => line);
      output.note('simulated agent job service is up; Ctrl-C ends it');
      if (!signal.aborted) await once(signal, 'abort');
    } finally {
      await simulator.close();
    }
  });
}

/** What is no duration stays as it is, to be named with every other bad option. */
async function toSimulatorOptions(options: SimulatorCommandOptions): Promise<object> {
  const { host, port = 8080, seed, autoCreate, ledgerFile, limit, window = '1h', turn = '4s' } = options;
  const turnMs = parseDurationMs(turn);
  return {
    ...defined({ host, port, seed, autoCreate, ledgerFile }),
    limiter: { kind: 'sliding', windowMs: parseDurationMs(window) ?? window, ...defined({ limit }) },
    turn: turnMs === undefined ? turn : { minMs: Math.round(turnMs / 2), maxMs: Math.round(turnMs * 1.5) },
    ...(options.options !== undefined && (await readJson(options.options))),
  };
}

async function readJson(file: string): Promise<object> {
  try {
    const value: unknown = JSON.parse(decodeUtf8(await readFile(file)));
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
    throw new TypeError('it must hold a JSON object');
  } catch (error) {
    throw new UsageError(`--options: cannot read ${file}: ${error instanceof Error ? error.message : String(error)}`);
  }
}
