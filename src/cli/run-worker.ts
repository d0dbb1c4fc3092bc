import { loadConfig } from '../config/index.js';
import { startTracing } from '../temporal/tracing.js';
import type { Cli } from './cli.js';

/** `follow-up worker` */
export async function runWorker({ env, output, bundled }: Cli): Promise<void> {
  const config = loadConfig(env, output.stderr.isTTY === true ? 'pretty' : 'json');
  // Stack traces of a worker must point to the sources; for short commands loading the maps would take too long.
  process.setSourceMapsEnabled(true);
  // The worker's native code takes a second to load, so only commands that need it load it.
  const [{ runUntilSignal, startWorker }, { createLogger }] = await Promise.all([
    import('../worker.js'),
    import('../logging.js'),
    bundled,
  ]);
  const tracing = await startTracing(env);
  const logger = createLogger(config.logging);
  await runUntilSignal(async (signal) => {
    const service = await startWorker({ config, logger, signal, plugins: tracing ? [tracing.plugin] : [] });
    const { identity, statusUrl, ready } = service;
    const { taskQueue } = config;
    // If the worker ends before it is ready, its run reports why.
    ready.then(
      () => output.data({ identity, taskQueue, statusUrl }, `worker ${identity} takes follow-ups from ${taskQueue}`),
      () => undefined,
    );
    return service;
  }, logger).finally(() => tracing?.close());
}
