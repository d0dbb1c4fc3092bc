import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { maskSecrets } from '../secrets.js';
import { ConfigError, type StatusAddress } from '../config/index.js';

/** What `/readyz` says. */
export interface Readiness {
  ready: boolean;
  reason: string;
}

/** What the status server shows. */
export interface StatusSource {
  /** Whether the worker accepts follow-ups and can send them, and if not, why. Never rejects. */
  readiness(): Promise<Readiness>;
  /** URL of the metrics to pass on; `undefined` while there are none. */
  metricsUrl(): string | undefined;
  /** Metrics to append, in Prometheus' text format. Never rejects. */
  ownMetrics(): Promise<string>;
}

/** What a worker tells over its life: that it is starting, later the result of a check, in the end that it stops. */
export class WorkerStatus implements StatusSource {
  #readiness = notReady('starting');
  #metricsUrl: string | undefined;

  /** @param describe gives the worker's own metrics, in Prometheus' text format */
  constructor(readonly describe: (readiness: Readiness) => string) {}

  async ownMetrics(): Promise<string> {
    return maskSecrets(this.describe(await this.#readiness()));
  }

  readiness(): Promise<Readiness> {
    return this.#readiness();
  }

  metricsUrl(): string | undefined {
    return this.#metricsUrl;
  }

  /** Temporal's runtime serves its metrics at `url`. */
  setMetricsUrl(url: string | undefined): void {
    this.#metricsUrl = url;
  }

  /** From now on, `check` says whether the worker is ready. */
  setCheck(check: () => Promise<Readiness>): void {
    this.#readiness = check;
  }

  /** From now on, the worker is not ready. */
  setNotReady(reason: string): void {
    this.#readiness = notReady(reason);
  }
}

function notReady(reason: string): () => Promise<Readiness> {
  return () => Promise.resolve({ ready: false, reason });
}

/** A running status server. */
export interface StatusServer {
  /** Address without a path, such as `http://127.0.0.1:9464`. */
  readonly url: string;
  close(): Promise<void>;
}

const METRICS_TIMEOUT_MS = 5_000;
const METRICS_TYPE = 'text/plain; version=0.0.4';

/**
 * Serves `/healthz` (the process is alive), `/readyz` (it accepts follow-ups and reaches what it needs) and `/metrics`
 * (Prometheus).
 *
 * @throws ConfigError naming FOLLOW_UP_STATUS_ADDRESS when it cannot listen there
 */
export async function startStatusServer(address: StatusAddress, source: StatusSource): Promise<StatusServer> {
  const server = createServer((incoming, response) => answer(incoming, response, source));
  try {
    await listen(server, address);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    const where = hostAndPort(address.host, address.port);
    const problem =
      code === 'EADDRINUSE'
        ? `${where} is taken by another process: stop that one, give another address, or "off"`
        : `${where} cannot be listened on (${code}): give another address, or "off"`;
    throw new ConfigError([{ name: 'FOLLOW_UP_STATUS_ADDRESS', message: problem }]);
  }
  const bound = server.address();
  const port = bound === null || typeof bound === 'string' ? address.port : bound.port;
  return {
    url: `http://${hostAndPort(address.host, port)}`,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function listen(server: Server, { host, port }: StatusAddress): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, host, resolve);
  });
}

function hostAndPort(host: string, port: number): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

function answer(incoming: IncomingMessage, response: ServerResponse, source: StatusSource): void {
  if (incoming.method !== 'GET' && incoming.method !== 'HEAD') {
    response.setHeader('allow', 'GET, HEAD');
    text(response, 405, 'only GET and HEAD');
    return;
  }
  switch (incoming.url?.split('?')[0]) {
    case '/healthz':
      text(response, 200, 'ok');
      return;
    case '/readyz':
      void source.readiness().then(({ ready, reason }) => text(response, ready ? 200 : 503, reason));
      return;
    case '/metrics':
      passOn(source, response);
      return;
    default:
      text(response, 404, 'there are /healthz, /readyz and /metrics');
  }
}

/** Passes on the metrics of Temporal's runtime, which it serves on its own loopback port, and appends ours. */
function passOn(source: StatusSource, response: ServerResponse): void {
  const metricsUrl = source.metricsUrl();
  if (metricsUrl === undefined) {
    response.writeHead(200, { 'content-type': METRICS_TYPE });
    void source.ownMetrics().then((own) => response.end(own));
    return;
  }
  const outgoing = request(metricsUrl, { timeout: METRICS_TIMEOUT_MS }, (incoming) => {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.once('end', () => {
      const isWhole = incoming.statusCode === 200;
      // As a whole: a secret may be in two chunks.
      const theirs = maskSecrets(Buffer.concat(chunks).toString('utf8'));
      response.writeHead(incoming.statusCode ?? 502, {
        'content-type': incoming.headers['content-type'] ?? METRICS_TYPE,
      });
      if (isWhole) void source.ownMetrics().then((own) => response.end(theirs + own));
      else response.end(theirs);
    });
    incoming.once('error', () => response.destroy());
  });
  outgoing.once('timeout', () => outgoing.destroy(new Error('timeout')));
  outgoing.once('error', () => {
    if (response.headersSent) response.destroy();
    else text(response, 503, 'the metrics cannot be read at the moment');
  });
  outgoing.end();
}

function text(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' });
  response.end(`${maskSecrets(body)}\n`);
}
