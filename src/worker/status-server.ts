import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { codeOf } from '../common/index.js';
import { ConfigError, type StatusAddress } from '../config/index.js';
import { PACKAGE_VERSION } from '../node/package.js';
import { hostInUrl } from '../node/tcp-ports.js';
import { maskSecrets } from '../secrets/secrets.js';
import type { ServerClock } from '../temporal/server-clock.js';

/** The response of `/readyz`: whether the worker accepts and can send follow-ups, and if not, why. */
export interface Readiness {
  ready: boolean;
  reason: string;
}

export interface WorkerStatus {
  /** Never rejects. */
  readiness: () => Promise<Readiness>;
  serverClock: ServerClock;
  /** URL of the runtime's metrics; `undefined` while there are none. */
  metricsUrl?: string | undefined;
}

export function notReady(reason: string): () => Promise<Readiness> {
  return () => Promise.resolve({ ready: false, reason });
}

const METRICS_TIMEOUT_MS = 5_000;

/**
 * Serves `/healthz` (the process is alive), `/readyz` (it accepts follow-ups and reaches its dependencies) and
 * `/metrics` (Prometheus).
 *
 * @returns its URL without a path, such as `http://127.0.0.1:9464`, and a function that closes it
 * @throws ConfigError naming FOLLOW_UP_STATUS_ADDRESS when it cannot listen there
 */
export async function startStatusServer({ host, port }: StatusAddress, status: WorkerStatus) {
  const server = createServer(({ method, url }, response) => {
    void respond(method, url?.split('?')[0], status).then(([code, body]) => {
      const type = 'text/plain; version=0.0.4; charset=utf-8';
      response.writeHead(code, { 'content-type': type, 'cache-control': 'no-store', allow: 'GET, HEAD' });
      // Masked as a whole: metrics and reasons may hold a secret anywhere.
      response.end(maskSecrets(body));
    });
  });
  try {
    await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, host, resolve));
  } catch (error) {
    const code = codeOf(error) ?? String(error);
    const problem =
      code === 'EADDRINUSE'
        ? 'is in use by another process: stop it, set another address, or "off"'
        : `cannot be used (${code}): set another address, or "off"`;
    const message = `${hostAndPort(host, port)} ${problem}`;
    throw new ConfigError([{ name: 'FOLLOW_UP_STATUS_ADDRESS', message }]);
  }
  return {
    url: `http://${hostAndPort(host, (server.address() as AddressInfo).port)}`,
    close: async (): Promise<void> => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function hostAndPort(host: string, port: number): string {
  return `${hostInUrl(host)}:${port}`;
}

type StatusResponse = [status: number, body: string];

/** Never rejects. */
async function respond(
  method: string | undefined,
  path: string | undefined,
  status: WorkerStatus,
): Promise<StatusResponse> {
  if (method !== 'GET' && method !== 'HEAD') return [405, 'only GET and HEAD\n'];
  switch (path) {
    case '/healthz':
      return [200, 'ok\n'];
    case '/readyz': {
      const { ready, reason } = await status.readiness();
      return [ready ? 200 : 503, `${reason}\n`];
    }
    case '/metrics':
      return metricsOf(status).catch((): StatusResponse => [503, 'the metrics are not available at the moment\n']);
    default:
      return [404, 'not found; there are only /healthz, /readyz and /metrics\n'];
  }
}

/** Start of this process as Unix time in seconds. */
const STARTED_AT_SECONDS = Date.now() / 1_000 - process.uptime();

/** The metrics of this process, and of Temporal's runtime from its own loopback port. */
async function metricsOf({ readiness, serverClock, metricsUrl }: WorkerStatus): Promise<StatusResponse> {
  let theirs = '';
  if (metricsUrl !== undefined) {
    const response = await fetch(metricsUrl, { signal: AbortSignal.timeout(METRICS_TIMEOUT_MS) });
    if (!response.ok) throw new Error(`status ${response.status}`);
    theirs = await response.text();
  }
  const { ready } = await readiness();
  const gauge = (name: string, help: string, value: number, labels = '') =>
    `# HELP ${name} ${help}\n# TYPE ${name} gauge\n${name}${labels} ${value}\n`;
  const build = `{version="${PACKAGE_VERSION}",node="${process.version}"}`;
  const ours = [
    gauge('follow_up_build_info', 'Always 1; the labels have the versions', 1, build),
    gauge('follow_up_worker_ready', '1 while /readyz answers 200, otherwise 0', ready ? 1 : 0),
    gauge(
      'follow_up_clock_offset_seconds',
      "How far this machine's clock is ahead of the Temporal server's; negative if it is behind",
      serverClock.offsetMs / 1_000,
    ),
    gauge('process_start_time_seconds', 'Unix time at which the process started', STARTED_AT_SECONDS),
  ];
  return [200, [theirs, ...ours].join('')];
}
