import { findFreePort, isPortFree } from '../node/tcp-ports.js';
import type { ResolveOptions } from './download.js';
import {
  childEnvironment,
  type ServerProcess,
  startOnFreePorts,
  startServerProcess,
  waitUntilReady,
} from './process.js';
import { resolveTemporalCli } from './resolve.js';

export { type OnProgress } from './process.js';

interface DevServerOptions extends ResolveOptions {
  /** gRPC port. @default a free one */
  port?: number | undefined;
  /** @default a free one */
  uiPort?: number | undefined;
  /** Whether an omitted port is the usual one, if free. @default false */
  preferUsualPorts?: boolean;
  ui?: boolean;
  /** Further arguments of `temporal server start-dev`, such as `['--search-attribute', 'Colour=Keyword']`. */
  args?: readonly string[];
}

/** A running development server on 127.0.0.1. It is killed when this process ends, even by SIGKILL. */
export interface DevServer extends Pick<ServerProcess, 'pid' | 'exited' | 'lastOutput' | 'stop'> {
  /** `host:port` of gRPC. */
  readonly address: string;
  readonly port: number;
  /** Only if the UI is served. */
  readonly uiUrl?: string;
  /** `kill -9`. Resolves when it is dead. */
  readonly kill: () => Promise<unknown>;
}

const IP = '127.0.0.1';
export const USUAL_PORTS = { port: 7233, uiPort: 8233 } as const;
/** Excludes the download. */
const START_TIMEOUT_MS = 60_000;

/**
 * Starts `temporal server start-dev`, which keeps everything in memory, and waits until its namespace `default`
 * answers. Chooses omitted ports, and chooses again if another process took one first.
 *
 * @throws Error when no Temporal CLI is available, a given port is taken, or the server does not start
 */
export async function startDevServer(options: DevServerOptions): Promise<DevServer> {
  const { env, ui = false, args = [] } = options;
  const path = await resolveTemporalCli(options);
  return startOnFreePorts(async () => {
    const port = await choosePort('port', options);
    const uiPort = await choosePort('uiPort', options);
    const httpPort = await findFreePort();
    const ports = ['--port', String(port), '--http-port', String(httpPort)];
    const serverArgs = ['--ip', IP, ...ports, '--log-level', 'error'];
    serverArgs.push(...(ui ? ['--ui-port', String(uiPort)] : ['--headless']), ...args);
    const server = startServerProcess(path, ['server', 'start-dev', ...serverArgs], { env: childEnvironment(env) });
    const kill = () => server.kill('SIGKILL');
    try {
      await waitUntilReady('Temporal dev server', server, START_TIMEOUT_MS, () => isUp(httpPort), options.signal);
    } catch (error) {
      await kill();
      throw error;
    }
    return { ...server, address: `${IP}:${port}`, port, ...(ui && { uiUrl: `http://${IP}:${uiPort}` }), kill };
  });
}

async function choosePort(name: keyof typeof USUAL_PORTS, options: DevServerOptions): Promise<number> {
  const given = options[name];
  if (given === undefined) {
    return options.preferUsualPorts && (await isPortFree(USUAL_PORTS[name])) ? USUAL_PORTS[name] : findFreePort();
  }
  if (await isPortFree(given)) return given;
  throw new Error(
    `port ${given} of ${IP} is taken. Stop the process that listens there, set another port, or none to have one chosen.`,
  );
}

const PROBE_TIMEOUT_MS = 2_000;

/**
 * Whether the server answers for its namespace `default`, at its own HTTP port. If another server has taken its gRPC
 * port, that one would answer there.
 */
async function isUp(httpPort: number): Promise<boolean> {
  const url = `http://${IP}:${httpPort}/api/v1/namespaces/default`;
  return (await fetch(url, { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) })).ok;
}
