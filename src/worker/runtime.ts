import { createServer } from 'node:net';
import { Runtime } from '@temporalio/worker';
import type { Logger } from 'pino';
import { type LogLevel, logLevels } from '../config/index.js';
import { temporalLevel, toTemporalLogger } from '../logging.js';
import { histogramBucketOverrides } from './metrics.js';

/** The logger of Temporal's process-wide runtime, and where it serves its metrics. */
interface InstalledRuntime {
  logger: Logger;
  metricsUrl: string;
}

let installed: InstalledRuntime | undefined;

/**
 * Installs Temporal's runtime in this process, which is possible only once. Later calls change its logger. The runtime
 * installs no signal handlers: whoever runs a worker shuts it down in the right order.
 *
 * @returns URL of the runtime's metrics in Prometheus' text format, on its own loopback port; `undefined` if other
 *   code had started the runtime before, without metrics
 */
export async function installRuntime(logger: Logger): Promise<{ metricsUrl: string | undefined }> {
  if (installed !== undefined) {
    installed.logger = logger;
    // The SDK shuts the runtime down when its last connection closes, and creates it again with the same options.
    if (Runtime._instance !== undefined) return { metricsUrl: installed.metricsUrl };
  } else if (Runtime._instance !== undefined) {
    logger.warn('The Temporal runtime was started by other code: its logs and metrics are not available here');
    return { metricsUrl: undefined };
  }
  const bindAddress = `127.0.0.1:${await findFreePort()}`;
  const runtime: InstalledRuntime = { logger, metricsUrl: `http://${bindAddress}/metrics` };
  const level = logLevels.find((name): name is LogLevel => name === logger.level) ?? 'info';
  Runtime.install({
    logger: toTemporalLogger(() => runtime.logger),
    shutdownSignals: [],
    telemetryOptions: {
      logging: { filter: { core: temporalLevel(level), other: 'ERROR' }, forward: {} },
      metrics: {
        prometheus: {
          bindAddress,
          countersTotalSuffix: true,
          unitSuffix: true,
          useSecondsForDurations: true,
          histogramBucketOverrides,
        },
      },
    },
  });
  installed = runtime;
  return { metricsUrl: runtime.metricsUrl };
}

async function findFreePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no free port on 127.0.0.1');
  return address.port;
}
