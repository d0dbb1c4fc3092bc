// A simulated agent job service: a real HTTP server with the interface of the real one, for demonstrations, tests and
// measurements. Its ledger is the ground truth of deliveries.
import { once, setMaxListeners } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { reachableHost } from '../node/tcp-ports.js';
import type { PlannedFault } from './faults.js';
import type { JobChange, NewJob, ServiceJob } from './jobs.js';
import { Ledger, type LedgerEntry, maxInAnyWindow } from './ledger.js';
import { Service, type SimulatorHooks } from './requests.js';
import { deliver, errorResponse } from './responses.js';
import { type SimulatorOptions, type SimulatorUpdate, withDefaults } from './simulator-options.js';

export { type PlannedFault } from './faults.js';
export { type NewJob } from './jobs.js';
export { type LedgerEntry } from './ledger.js';
export { type MessageStep, type SimulatorHooks } from './requests.js';
export { type SimulatorOptions, simulatorOptionsSchema } from './simulator-options.js';

/** Connections that may wait for accept; Linux caps it at `net.core.somaxconn`, 4,096 by default. */
const BACKLOG = 4_096;

export interface Simulator {
  /** Address for clients, such as `http://127.0.0.1:40123`. */
  readonly baseUrl: string;
  readonly port: number;
  readonly apiKey: string;
  /** Every message request that arrived completely, in the order of decisions. */
  readonly ledger: readonly LedgerEntry[];
  readonly gets: number;
  addJob(job: NewJob): void;
  /** Changes a job as another client would. Throws if it does not exist. */
  changeJob(change: JobChange): void;
  /** The true state of a job, even while reads are stale, with its accepted messages and all reads. */
  job(projectId: string, jobId: string): (ServiceJob & { messages: number; gets: number }) | undefined;
  /** Replaces options, each as a whole. Throws naming each invalid field, without changing anything. */
  update(patch: SimulatorUpdate): void;
  /** Plans a fault for the next matching requests. Faults strike in the order of planning. */
  failNext(fault: PlannedFault): void;
  clearFaults(): void;
  /** Most messages of a project that counted against its limit in any rolling window. */
  maxInAnyWindow(projectId: string, windowMs: number): number;
  /** Closes every connection. Safe to repeat. */
  close(): Promise<void>;
}

/**
 * Starts the service on its own socket.
 *
 * @throws naming each invalid option; if the port is taken; if the ledger file cannot be written
 */
export async function startSimulator(options: SimulatorOptions = {}, hooks: SimulatorHooks = {}): Promise<Simulator> {
  const settings = withDefaults(options);
  const ledger = new Ledger(settings.ledgerFile);
  const closing = new AbortController();
  // Every waiting request listens to it.
  setMaxListeners(0, closing.signal);
  const service = new Service(settings, ledger, closing.signal, hooks);
  const server = createServer(createHandler(service, closing.signal));
  server.listen({ host: settings.host, port: settings.port, backlog: BACKLOG });
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  let closed: Promise<void> | undefined;

  return {
    baseUrl: `http://${reachableHost(settings.host)}:${port}`,
    port,
    get apiKey() {
      return settings.apiKey;
    },
    ledger: ledger.entries,
    get gets() {
      return service.gets;
    },
    addJob: (job) => void service.jobs.add(job, Date.now()),
    changeJob({ projectId, jobId, ...change }) {
      const job = service.jobs.get(projectId, jobId);
      if (!job) throw new Error(`job ${projectId}/${jobId} does not exist; add it first`);
      job.set(change);
    },
    job(projectId, jobId) {
      const job = service.jobs.get(projectId, jobId);
      const gets = service.requestsFor('GET', projectId, jobId);
      return job && { ...job.truth(Date.now()), messages: job.messages, gets };
    },
    update: (patch) => void Object.assign(settings, withDefaults({ ...settings, ...patch })),
    failNext: (fault) => service.faults.add(fault),
    clearFaults: () => service.faults.clear(),
    maxInAnyWindow(projectId, windowMs) {
      const counted = ledger.entries.flatMap((each) => (each.projectId === projectId ? (each.countedAtMs ?? []) : []));
      return maxInAnyWindow(counted, windowMs);
    },
    close: () => (closed ??= close()),
  };

  async function close(): Promise<void> {
    closing.abort();
    const stopped = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    await stopped;
  }
}

/** Answers requests until `closing` aborts. */
function createHandler(service: Service, closing: AbortSignal): RequestListener {
  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const simulated = await service.respondTo(request, await buffer(request));
    await deliver(simulated, response, closing);
    await simulated.afterDelivery?.();
  }

  /** Answers with an error of the simulator itself, such as a full disk, unless the client or the simulator has closed. */
  function giveUp(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    if (closing.aborted || response.headersSent || !request.complete) {
      response.destroy();
      return;
    }
    const { status, headers, text } = errorResponse(500, `simulator: ${String(error)}`);
    response.writeHead(status, headers).end(text);
  }

  return (request, response) =>
    void serve(request, response).catch((error: unknown) => giveUp(request, response, error));
}
