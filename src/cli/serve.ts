import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { InvalidInputError } from '../client/index.js';
import { messageOf } from '../common/index.js';
import { loadConfig } from '../config/index.js';
import { durationSchema } from '../contract/index.js';
import { decodeUtf8 } from '../node/text-file.js';
import { type Cli, ExitCode, interruptible, UsageError } from './cli.js';

/** Time for the process of a failed worker to end by itself: Temporal's threads may keep it alive. */
const EXIT_WITHIN_MS = 5_000;

/** `follow-up worker` */
export async function runWorker({ env, io, output, bundled }: Cli): Promise<void> {
  const config = loadConfig(env, output.stderr.isTTY === true ? 'pretty' : 'json');
  // A worker's stack traces must point to the sources; for short commands, loading the maps would take too long.
  process.setSourceMapsEnabled(true);
  // The worker's native code takes a second to load, so only commands that need it load it.
  const [{ runUntilSignal, startWorker }, { createLogger }] = await Promise.all([
    import('../worker.js'),
    import('../worker/logging.js'),
    bundled,
  ]);
  const logger = createLogger(config.logging);
  await runUntilSignal(async (signal) => {
    const service = await startWorker({ config, logger, signal });
    const { identity, statusUrl, ready } = service;
    const { taskQueue } = config;
    // If the worker ends before it is ready, `run` reports the reason.
    ready.then(
      () =>
        output.data({ identity, taskQueue, statusUrl }, `worker ${identity} is ready for follow-ups from ${taskQueue}`),
      () => undefined,
    );
    service.run().catch(() => setTimeout(() => io.exit(ExitCode.error), EXIT_WITHIN_MS).unref());
    return service;
  }, logger);
}

/** `follow-up simulator` */
export async function runSimulator(cli: Cli, options: unknown): Promise<void> {
  // A worker does not need it.
  const { simulatorOptionsSchema, startSimulator } = await import('../simulator/index.js');
  const { host, port, limiter, autoCreate, seed, ledgerFile } = simulatorOptionsSchema.shape;
  const schema = z.object({
    ...{ host, autoCreate, seed, ledgerFile },
    port: port.default(8080),
    limit: limiter.unwrap().unwrap().shape.limit,
    window: durationSchema('1ms', '365d').default(3_600_000),
    turn: durationSchema('0ms', '12h').default(4_000),
    options: z.string().optional(),
  });
  const { limit, window: windowMs, turn, options: file, ...others } = InvalidInputError.check(schema, options);
  const settings = InvalidInputError.check(simulatorOptionsSchema, {
    ...others,
    limiter: { limit, windowMs },
    turn: { minMs: Math.round(turn / 2), maxMs: Math.round(turn * 1.5) },
    ...(file !== undefined && (await readJson(file))),
  });
  const { output } = cli;
  await interruptible(cli, async (signal) => {
    const simulator = await startSimulator(settings).catch((error: unknown) => {
      throw error instanceof Error && 'syscall' in error ? new UsageError(`port: ${error.message}`) : error;
    });
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

async function readJson(file: string): Promise<object> {
  try {
    const value: unknown = JSON.parse(decodeUtf8(await readFile(file)));
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
    throw new TypeError('it must hold a JSON object');
  } catch (error) {
    throw new UsageError(`--options: ${file}: ${messageOf(error)}`);
  }
}
