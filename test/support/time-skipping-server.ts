import { Connection } from '@temporalio/client';
import { TestWorkflowEnvironment } from '@temporalio/testing';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import type { Environment } from '../../src/config/index.js';
import {
  childEnvironment,
  type OnProgress,
  startOnFreePorts,
  startServerProcess,
  waitUntilReady,
} from '../../src/dev-server/process.js';
import { resolvePinned } from '../../src/dev-server/resolve.js';
import { findFreePort } from '../../src/node/tcp-ports.js';
import { TIME_SKIPPING_SERVER } from './pins.js';
import { findOnPath, isExecutable } from './programs.js';

/** Where the server comes from. */
interface TimeSkippingOptions {
  env: Environment;
  onProgress?: OnProgress | undefined;
}

const START_TIMEOUT_MS = 60_000;

/**
 * Finds the time-skipping test server of the Java SDK: `TEMPORAL_TEST_SERVER_PATH`, then as `resolvePinned` does. On Linux
 * its executable needs glibc, which its wheel does not tell.
 *
 * @throws Error with every source's reason
 */
export async function resolveTimeSkippingServer(options: TimeSkippingOptions): Promise<string> {
  const path = options.env['TEMPORAL_TEST_SERVER_PATH'];
  const setting = async () => {
    if (!path || (await isExecutable(path))) return path || undefined;
    throw new Error(`${path} is not an executable file`);
  };
  const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
  const isMusl = process.platform === 'linux' && header.glibcVersionRuntime === undefined;
  if (isMusl && !path) throw new Error('the time-skipping server needs glibc, which this machine does not have');
  return await resolvePinned(TIME_SKIPPING_SERVER, options, [['TEMPORAL_TEST_SERVER_PATH', setting]]);
}

/**
 * A test environment whose time skips while a workflow's result is awaited. All workflows share its time, so run one at
 * a time, or one environment for each test. `teardown()` of the environment also stops the server, which is killed when
 * this process ends.
 *
 * @throws Error if the server is not available
 */
export async function createTimeSkippingEnvironment(options: TimeSkippingOptions): Promise<TestWorkflowEnvironment> {
  const path = await resolveTimeSkippingServer(options);
  return startOnFreePorts(async () => {
    const port = await findFreePort();
    const server = startServerProcess(path, [String(port)], { env: childEnvironment(options.env) });
    try {
      await waitUntilReady('Time-skipping server', server, START_TIMEOUT_MS, () => answers(`127.0.0.1:${port}`));
      // The SDK gives its own server 5 s to start, which is too short on a busy machine. It finds this one at the port
      // and starts nothing.
      const nothing = (await findOnPath('true', options.env)) ?? '/usr/bin/true';
      const environment = await TestWorkflowEnvironment.createTimeSkipping({
        server: { port, executable: { type: 'existing-path', path: nothing } },
      });
      const teardown = environment.teardown.bind(environment);
      environment.teardown = async () => {
        await teardown();
        await server.stop(0);
      };
      return environment;
    } catch (error) {
      await server.stop(0);
      throw error;
    }
  });
}

/** This server lists no workflows. The budget finds that nothing was sent before it. */
export const withoutList: ActivityInterceptorsFactory = ({ info }) => ({
  inbound: {
    async execute(input, next) {
      if (info.activityType !== 'listRecentSends') return next(input);
      return { sends: [], others: 0, leaseMs: 1, drainMs: 0, runId: info.workflowExecution?.runId };
    },
  },
});

async function answers(address: string): Promise<true> {
  await (await Connection.connect({ address, connectTimeout: 1_000 })).close();
  return true;
}
