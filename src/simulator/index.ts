/**
 * A simulated agent job service: a real HTTP server with the interface of the real one, for demonstrations, tests and
 * measurements. Its ledger is the ground truth of what was delivered.
 *
 * @module
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { idSchema } from '../contract/ids.js';
import { type Answer, deliver, errorAnswer, reset } from './answers.js';
import { control, CONTROL_PREFIX, countedInstants, type SimulatorStats } from './control-api.js';
import { type PlannedFault, plannedFaultSchema } from './fault-plan.js';
import { type JobChange, jobChangeSchema, type JobSnapshot, type NewJob, newJobSchema } from './job-store.js';
import { Ledger, type LedgerEntry, maxInAnyWindow } from './ledger.js';
import { LiveSettings, parseOrThrow, type SimulatorOptions, type SimulatorUpdate } from './options.js';
import { getJob, postMessage } from './requests.js';
import { type MessageHook, type ServiceRequest, ServiceState } from './service-state.js';

export { HOSTILE_PR_LINK, UNKNOWN_STATUS } from './answers.js';
export type { FaultKind, PlannedFault } from './fault-plan.js';
export type { LedgerEntry } from './ledger.js';
export type { MessageStep } from './service-state.js';
export { simulatorOptionsSchema, type SimulatorOptions } from './options.js';

/** 256 KiB of prompt, each byte escaped as six in JSON, is 1.5 MiB. */
const MAX_BODY_BYTES = 4 * 1_048_576;
/** Connections that may wait for accept; Linux caps it at `net.core.somaxconn`, 4,096 by default. */
const BACKLOG = 4_096;
const SERVICE_PATH = /^\/v2\/agent\/([^/]+)\/job\/([^/]+?)(\/message)?$/;

/** A running simulated agent job service. */
export interface Simulator {
  /** Address for clients, such as `http://127.0.0.1:40123`. */
  readonly baseUrl: string;
  readonly port: number;
  /** The key that it accepts now. */
  readonly apiKey: string;
  /** Every message request that arrived completely, in the order of decisions. */
  readonly ledger: readonly LedgerEntry[];
  /** Number of get-job requests. */
  readonly gets: number;
  stats(): SimulatorStats;
  /** Makes a job, or replaces one. */
  addJob(job: NewJob): void;
  /** Changes a job as somebody else would. Throws if it does not exist. */
  changeJob(change: JobChange): void;
  /** The true state of a job, even if reads are stale; `undefined` if it does not exist. */
  job(projectId: string, jobId: string): JobSnapshot | undefined;
  jobs(): JobSnapshot[];
  /** Replaces options while it runs, each as a whole. Throws naming each bad field, and then changes nothing. */
  update(patch: SimulatorUpdate): void;
  /** Plans a fault for the next matching requests. Faults strike in the order of their plans. */
  failNext(fault: PlannedFault): void;
  /** Drops planned faults that have not struck yet. */
  clearFaults(): void;
  /** The most messages of a project that were counted against its limit in any rolling window. */
  maxInAnyWindow(projectId: string, windowMs: number): number;
  /** Closes every connection and waits for the ledger. May be called more than once. */
  close(): Promise<void>;
}

/**
 * Starts the service on a socket of its own.
 *
 * @param onMessage called at each step of a message, which waits until it resolves
 * @throws naming each bad option; if the port is taken; if the ledger file cannot be written
 */
export async function startSimulator(options: SimulatorOptions = {}, onMessage?: MessageHook): Promise<Simulator> {
  const live = new LiveSettings(options);
  const state = new ServiceState(live, await Ledger.open(live.current.ledgerFile), onMessage);
  const connections = new ConnectionTable();
  const actions = { stats: () => statsOf(state, connections), update };
  const server = createServer((request, response) => {
    void serve(request, response).catch((error: unknown) => giveUp(request, response, error));
  });
  server.keepAliveTimeout = live.current.keepAliveTimeoutMs;
  server.on('connection', (socket) => connections.add(socket));
  try {
    await listen(server, live.current.host, live.current.port);
  } catch (error) {
    await state.ledger.close();
    throw error;
  }
  const { port } = server.address() as AddressInfo;
  const baseUrl = `http://${reachableHost(live.current.host)}:${port}`;
  let closed: Promise<void> | undefined;

  return {
    baseUrl,
    port,
    get apiKey() {
      return live.current.apiKey;
    },
    ledger: state.ledger.entries,
    get gets() {
      return state.gets;
    },
    stats: actions.stats,
    addJob: (job) => state.jobs.add(parseOrThrow(newJobSchema, job, 'job'), Date.now()),
    changeJob: (change) => state.jobs.change(parseOrThrow(jobChangeSchema, change, 'job')),
    job: (projectId, jobId) => state.jobs.snapshot(projectId, jobId, Date.now()),
    jobs: () => state.jobs.snapshots(Date.now()),
    update,
    failNext: (fault) => state.faults.add(parseOrThrow(plannedFaultSchema, fault, 'fault')),
    clearFaults: () => state.faults.clear(),
    maxInAnyWindow: (projectId, windowMs) => maxInAnyWindow(countedInstants(state, projectId), windowMs),
    close: () => (closed ??= close()),
  };

  function update(patch: SimulatorUpdate): void {
    live.update(patch);
    const { limiter, outsider, keepAliveTimeoutMs } = live.current;
    server.keepAliveTimeout = keepAliveTimeoutMs;
    if (patch.limiter === undefined && patch.outsider === undefined) return;
    for (const budget of state.budgets.values()) budget.reconfigure(limiter, outsider, Date.now());
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const target = request.url ?? '/';
    const url = new URL(URL.canParse(target, 'http://simulator') ? target : '/', 'http://simulator');
    const isControl = url.pathname.startsWith(CONTROL_PREFIX) && live.current.controlApi;
    if (live.current.down && !isControl) {
      reset(request.socket);
      return;
    }
    const body = await readBody(request);
    const contentType = request.headers['content-type'];
    const method = request.method ?? 'GET';
    if (url.pathname === `${CONTROL_PREFIX}redirected`) {
      state.redirectsFollowed++;
      await send(errorAnswer(404, 'nothing is here'));
    } else if (isControl) {
      const answer = control(state, actions, { method, url, contentType, body: body ?? Buffer.alloc(0) });
      response.writeHead(answer.status, { 'content-type': 'application/json' }).end(JSON.stringify(answer.body));
    } else {
      const answer = await answerService(method, request, body);
      await send(answer);
      await answer.afterDelivery?.();
    }

    async function send(answer: Answer): Promise<void> {
      state.answerCounts.set(answer.status, (state.answerCounts.get(answer.status) ?? 0) + 1);
      await deliver(answer, response, { ...live.current, signal: state.closing });
    }
  }

  async function answerService(method: string, request: IncomingMessage, body: Buffer | undefined): Promise<Answer> {
    // Not the parsed URL, in which ".." has been resolved: an id with it must not reach another job.
    const [, projectId, jobId, message] = SERVICE_PATH.exec(request.url?.split('?')[0] ?? '') ?? [];
    if (!idSchema.safeParse(projectId).success || !idSchema.safeParse(jobId).success) {
      return errorAnswer(404, 'not found');
    }
    if (body === undefined) return errorAnswer(413, `the body must be at most ${MAX_BODY_BYTES} bytes`);
    const expected = message === undefined ? 'GET' : 'POST';
    if (method !== expected) return errorAnswer(405, 'method not allowed', { headers: { allow: expected } });
    const serviceRequest: ServiceRequest = {
      projectId: projectId ?? '',
      jobId: jobId ?? '',
      receivedAtMs: Date.now(),
      authorization: request.headers.authorization,
      contentType: request.headers['content-type'],
      body,
    };
    const redirectLocation = live.current.redirectLocation ?? `${baseUrl}${CONTROL_PREFIX}redirected`;
    return method === 'GET'
      ? await getJob(state, serviceRequest, redirectLocation)
      : await postMessage(state, serviceRequest, redirectLocation);
  }

  /**
   * Answers with an error of the simulator itself, such as a full disk, unless the client has left or the simulator
   * closes.
   */
  function giveUp(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    if (state.closing.aborted || response.headersSent || !request.complete) {
      response.destroy();
      return;
    }
    const { status, headers, text } = errorAnswer(500, `simulator: ${String(error)}`);
    response.writeHead(status, headers).end(text);
  }

  async function close(): Promise<void> {
    state.close();
    const stopped = new Promise<void>((resolve) => server.close(() => resolve()));
    connections.destroyAll();
    await stopped;
    await state.ledger.close();
  }
}

/** The open connections, and their highest number. */
class ConnectionTable {
  readonly #sockets = new Set<Socket>();
  most = 0;

  add(socket: Socket): void {
    this.#sockets.add(socket);
    this.most = Math.max(this.most, this.#sockets.size);
    socket.on('close', () => this.#sockets.delete(socket));
  }

  get open(): number {
    return this.#sockets.size;
  }

  destroyAll(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}

function statsOf(state: ServiceState, connections: ConnectionTable): SimulatorStats {
  return {
    gets: state.gets,
    posts: state.posts,
    accepted: state.ledger.entries.filter((entry) => entry.accepted).length,
    answers: Object.fromEntries(state.answerCounts),
    faults: Object.fromEntries(state.faultCounts),
    outsiderRequests: Object.fromEntries([...state.budgets].map(([id, budget]) => [id, budget.outsiderRequests])),
    redirectsFollowed: state.redirectsFollowed,
    openConnections: connections.open,
    mostConnections: connections.most,
  };
}

/** The whole body, or `undefined` if it is too long. Rejects if the client leaves before its end. */
async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes <= MAX_BODY_BYTES) chunks.push(chunk);
  }
  return bytes <= MAX_BODY_BYTES ? Buffer.concat(chunks) : undefined;
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const fix = error.code === 'EADDRINUSE' ? '; choose another port, or 0 for any free one' : '';
      reject(new Error(`simulator: cannot listen on ${host}:${port} (${error.code ?? error.message})${fix}`));
    });
    server.listen({ host, port, backlog: BACKLOG }, () => resolve());
  });
}

/** The address at which a client on this machine reaches a server that listens on `host`. */
function reachableHost(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  if (host === '::') return '[::1]';
  return host.includes(':') ? `[${host}]` : host;
}
