import { loadConfig, loadLoggingConfig } from '../config/index.js';
import { startTracing } from '../temporal/tracing.js';
import type { Cli } from './cli.js';

/** `follow-up worker` */
export async function runWorker({ env, output, bundled }: Cli): Promise<void> {
  const logging = loadLoggingConfig(env, output.stderr.isTTY === true ? 'pretty' : 'json');
  const config = { ...loadConfig(env), logging };
  // A stack that a worker leaves behind must lead to its sources; commands that end soon would wait for the maps.
  process.setSourceMapsEnabled(true);
  // The worker's native code takes a second to load: only the commands that need it pay for it.
  const [{ runUntilSignal, startWorker }, { createLogger }] = await Promise.all([
    import('../worker.js'),
    import('../logging.js'),
    bundled,
  ]);
  const tracing = await startTracing(env);
  const logger = createLogger(logging);
  await runUntilSignal(async (signal) => {
    const service = await startWorker({ config, logger, signal, plugins: tracing ? [tracing.plugin] : [] });
    const { identity, statusUrl, ready } = service;
    const { taskQueue } = config;
    // A worker that ends before it is ready says why when it is run.
    ready.then(
      () => output.data({ identity, taskQueue, statusUrl }, `worker ${identity} takes follow-ups from ${taskQueue}`),
      () => undefined,
    );
    return service;
  }, logger).finally(() => tracing?.close());
}
