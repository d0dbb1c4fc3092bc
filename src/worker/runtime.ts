import { Runtime } from '@temporalio/worker';
import type { Logger } from 'pino';
import { logLevels } from '../config/index.js';
import { findFreePort } from '../node/tcp-ports.js';
import { temporalLevel, toTemporalLogger } from './logging.js';
import { histogramBucketOverrides } from './metrics.js';

let installed: { logger: Logger; metricsUrl: string } | undefined;

/**
 * Installs Temporal's runtime in this process, which is possible only once. Later calls change its logger. The runtime
 * installs no signal handlers, so that shutdowns happen in the right order.
 *
 * @returns URL of the runtime's metrics in Prometheus' text format, on its own loopback port; `undefined` if other code
 *   had started the runtime without metrics
 */
export async function installRuntime(logger: Logger): Promise<{ metricsUrl: string | undefined }> {
  if (installed !== undefined) {
    installed.logger = logger;
    // When its last connection closes, the SDK shuts the runtime down, and recreates it with the same options.
    if (Runtime._instance !== undefined) return installed;
  } else if (Runtime._instance !== undefined) {
    logger.warn('The Temporal runtime was started by other code: its logs and metrics are not available here');
    return { metricsUrl: undefined };
  }
  const bindAddress = `127.0.0.1:${await findFreePort()}`;
  const runtime = { logger, metricsUrl: `http://${bindAddress}/metrics` };
  const level = logLevels.find((name) => name === logger.level) ?? 'info';
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
  return runtime;
}
