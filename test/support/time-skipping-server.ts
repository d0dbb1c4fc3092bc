import { TestWorkflowEnvironment } from '@temporalio/testing';
import { childEnvironment, findOnPath, type Environment, type OnProgress } from '../../src/embedded/environment.js';
import { probeTemporal } from '../../src/embedded/dev-server.js';
import {
  findFreePorts,
  startOnFreePorts,
  startServerProcess,
  waitUntilReady,
} from '../../src/embedded/server-process.js';
import { resolveTimeSkippingServer } from './resolve-time-skipping-server.js';

/** Settings of {@link startTimeSkippingServer}. */
export interface TimeSkippingServerOptions {
  env: Environment;
  onProgress?: OnProgress | undefined;
  /** How long the start may take, without the download. @default 60_000 */
  startTimeoutMs?: number;
}

/** A running time-skipping server. It is killed when this process ends. */
export interface TimeSkippingServer {
  /** `host:port` of gRPC. */
  readonly address: string;
  readonly port: number;
  readonly pid: number;
  stop(): Promise<void>;
}

const IP = '127.0.0.1';

/**
 * Starts the time-skipping test server of the Java SDK.
 *
 * @throws BinaryUnavailableError if the server is not available
 */
export async function startTimeSkippingServer(options: TimeSkippingServerOptions): Promise<TimeSkippingServer> {
  const { path } = await resolveTimeSkippingServer(options);
  return startOnFreePorts(async () => {
    const [port = 0] = await findFreePorts(1, IP);
    const server = startServerProcess(path, [String(port)], { env: childEnvironment(options.env) });
    const address = `${IP}:${port}`;
    try {
      await waitUntilReady('Time-skipping server', server, options.startTimeoutMs ?? 60_000, () =>
        probeTemporal(address),
      );
      return { address, port, pid: server.pid, stop: () => server.stop(0) };
    } catch (error) {
      await server.stop(0);
      throw error;
    }
  });
}

/**
 * A test environment whose time skips while a workflow's result is awaited. All workflows share its time, so run one at
 * a time, or one environment for each test. `teardown()` of the environment also stops the server.
 *
 * @throws BinaryUnavailableError if the server is not available
 */
export async function createTimeSkippingEnvironment(
  options: TimeSkippingServerOptions,
): Promise<TestWorkflowEnvironment> {
  const server = await startTimeSkippingServer(options);
  try {
    // The SDK gives its own server 5 s to start, which is too short for a JVM on a busy machine. It finds this one at
    // the port and starts nothing.
    const nothing = (await findOnPath('true', options.env)) ?? '/usr/bin/true';
    const environment = await TestWorkflowEnvironment.createTimeSkipping({
      server: { port: server.port, executable: { type: 'existing-path', path: nothing } },
    });
    const teardown = environment.teardown.bind(environment);
    environment.teardown = async () => {
      await teardown();
      await server.stop();
    };
    return environment;
  } catch (error) {
    await server.stop();
    throw error;
  }
}
