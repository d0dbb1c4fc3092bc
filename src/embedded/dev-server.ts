import { Connection } from '@temporalio/client';
import { TypedSearchAttributes, type SearchAttributeType } from '@temporalio/common';
import { WITHOUT_PROXY } from '../temporal/grpc.js';
import { childEnvironment, type Environment, type OnProgress } from './environment.js';
import { findFreePorts, isPortFree, startOnFreePorts, startServerProcess, waitUntilReady } from './server-process.js';
import { resolveTemporalCli } from './resolve-temporal-cli.js';

/** Settings of {@link startDevServer}. */
interface DevServerOptions {
  env: Environment;
  onProgress?: OnProgress | undefined;
  /** Cancels the search for the server and its download. */
  signal?: AbortSignal | undefined;
  /** Address to listen on. @default '127.0.0.1' */
  ip?: string;
  /** gRPC port. @default a free one */
  port?: number;
  /** Whether the web UI is served. @default true if `uiPort` is given, else false */
  ui?: boolean;
  /** @default a free one */
  uiPort?: number;
  /** SQLite file that keeps everything across restarts. @default none: everything is kept in memory */
  dbFile?: string;
  /** Created at the start, in addition to `default`. @default 'default' */
  namespace?: string;
  /** Registered at the start; as `defineSearchAttributeKey` makes them. */
  searchAttributes?: readonly { name: string; type: SearchAttributeType }[];
  /**
   * Further arguments of `temporal server start-dev`, such as `['--dynamic-config-value', 'limit.blobSize.warn=1']`.
   */
  extraArgs?: readonly string[];
  /** @default 'error' */
  logLevel?: 'debug' | 'info' | 'warn' | 'error' | 'never';
  /** Called with everything the server writes. */
  onOutput?: (text: string) => void;
  /** How long the start may take, not counting the download. @default 60_000 */
  startTimeoutMs?: number;
}

/** A running development server. It is killed when this process ends, even by SIGKILL. */
export interface DevServer {
  /** `host:port` of gRPC. */
  readonly address: string;
  readonly port: number;
  readonly uiUrl?: string;
  readonly uiPort?: number;
  readonly namespace: string;
  readonly pid: number;
  /** Resolves when the process has ended, for whatever reason. */
  readonly exited: Promise<void>;
  /** The end of its output. */
  lastOutput(): string;
  /** `kill -9`. Resolves when it is dead; start another with the same ports and `dbFile` to continue. */
  kill(): Promise<void>;
  /** SIGTERM, then SIGKILL. May be called more than once. */
  stop(): Promise<void>;
}

/**
 * Starts `temporal server start-dev` and waits until its namespace answers. Ports that are not given are chosen, and
 * chosen again if somebody else was quicker.
 *
 * @throws BinaryUnavailableError when no Temporal CLI is available
 * @throws Error when a port that was given is taken, or the server does not start
 */
export async function startDevServer(options: DevServerOptions): Promise<DevServer> {
  const ip = options.ip ?? '127.0.0.1';
  const checkGivenPorts = async () => {
    for (const [name, port] of [['port', options.port] as const, ['uiPort', options.uiPort] as const]) {
      if (port !== undefined && !(await isPortFree(port, ip))) throw portTaken(name, port, ip);
    }
  };
  await checkGivenPorts();
  const { path } = await resolveTemporalCli(options);
  const start = async () => {
    const [port, uiPort] = await choosePorts(options, ip);
    return startOnce(path, options, ip, port, uiPort);
  };
  return startOnFreePorts(start, async () => {
    await checkGivenPorts();
    options.onProgress?.('Temporal dev server: a port was taken meanwhile, choosing others');
  });
}

async function startOnce(
  path: string,
  options: DevServerOptions,
  ip: string,
  port: number,
  uiPort: number,
): Promise<DevServer> {
  const ui = wantsUi(options);
  const namespace = options.namespace ?? 'default';
  const args = ['server', 'start-dev', '--ip', ip, '--port', String(port), '--namespace', namespace];
  args.push(...(ui ? ['--ui-port', String(uiPort)] : ['--headless']));
  args.push('--log-level', options.logLevel ?? 'error');
  if (options.dbFile !== undefined) args.push('--db-filename', options.dbFile);
  for (const { name, type } of options.searchAttributes ?? []) {
    args.push('--search-attribute', `${name}=${TypedSearchAttributes.toMetadataType(type)}`);
  }
  const server = startServerProcess(path, [...args, ...(options.extraArgs ?? [])], {
    env: childEnvironment(options.env),
    onOutput: options.onOutput,
  });
  const host = hostForClients(ip);
  const address = `${host}:${port}`;
  try {
    await waitUntilReady('Temporal dev server', server, options.startTimeoutMs ?? 60_000, () =>
      probeTemporal(address, namespace),
    );
  } catch (error) {
    await server.stop(0);
    throw error;
  }
  return {
    address,
    port,
    ...(ui ? { uiUrl: `http://${host}:${uiPort}`, uiPort } : {}),
    namespace,
    pid: server.pid,
    exited: server.exited,
    lastOutput: () => server.lastOutput(),
    kill: async () => {
      server.kill('SIGKILL');
      await server.exited;
    },
    stop: () => server.stop(),
  };
}

async function choosePorts(options: DevServerOptions, ip: string): Promise<[number, number]> {
  const [first = 0, second = 0] = await findFreePorts(2, ip);
  return [options.port ?? first, options.uiPort ?? second];
}

function wantsUi({ ui, uiPort }: DevServerOptions): boolean {
  return ui ?? uiPort !== undefined;
}

/** A server that listens on every address is reached at loopback. */
function hostForClients(ip: string): string {
  if (ip === '0.0.0.0') return '127.0.0.1';
  if (ip === '::') return '[::1]';
  return ip.includes(':') ? `[${ip}]` : ip;
}

function portTaken(name: string, port: number, ip: string): Error {
  return new Error(
    `${name}: ${port} on ${ip} is taken. Stop the process that listens there, give another port, or none to have one chosen.`,
  );
}

const ATTEMPT_TIMEOUT_MS = 1_000;
const NAMESPACE_TIMEOUT_MS = 2_000;

/**
 * Whether a Temporal server answers, and has the namespace if one is given.
 *
 * @throws Error with the reason while it does not
 */
export async function probeTemporal(address: string, namespace?: string): Promise<boolean> {
  const connection = await Connection.connect({
    address,
    channelArgs: WITHOUT_PROXY,
    connectTimeout: ATTEMPT_TIMEOUT_MS,
    interceptors: [],
  });
  try {
    if (namespace !== undefined) {
      await connection.withDeadline(Date.now() + NAMESPACE_TIMEOUT_MS, () =>
        connection.workflowService.describeNamespace({ namespace }),
      );
    }
    return true;
  } finally {
    await connection.close();
  }
}
