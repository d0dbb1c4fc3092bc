import { setTimeout as sleep } from 'node:timers/promises';
import { setMaxListeners } from 'node:events';
import { retryAfterHeader } from './answers.js';
import { type Fault, FaultPlan } from './fault-plan.js';
import { JobStore } from './job-store.js';
import type { Ledger } from './ledger.js';
import { ProjectBudget } from './limiter.js';
import type { LiveSettings, SimulatorSettings } from './options.js';
import { createRandom, type Random } from './random.js';

/**
 * Steps of a message request: it has arrived whole and nothing is decided; it stands in the ledger, on disk where there
 * is a file; its answer has been handed to the socket.
 */
export type MessageStep = 'received' | 'recorded' | 'answered';

/** Called at each step; the request continues when it resolves. */
export type MessageHook = (reached: {
  step: MessageStep;
  projectId: string;
  jobId: string;
  /** `null` if the body had none. */
  prompt: string | null;
}) => Promise<void> | void;

/** One request to the service, arrived whole. */
export interface ServiceRequest {
  projectId: string;
  jobId: string;
  receivedAtMs: number;
  authorization: string | undefined;
  contentType: string | undefined;
  body: Buffer;
}

/** The random draws for one request, all made when it arrives, so that runs with the same seed are alike. */
export interface RequestPlan {
  fault: Fault | undefined;
  /** Wait before the request is looked at. */
  beforeMs: number;
  /** Wait from then to the answer. */
  afterMs: number;
  /** For later draws. */
  random: Random;
}

/** The state of one simulator. */
export class ServiceState {
  readonly live: LiveSettings;
  readonly ledger: Ledger;
  readonly jobs: JobStore;
  readonly faults = new FaultPlan();
  readonly budgets = new Map<string, ProjectBudget>();
  /** How often each fault struck. */
  readonly faultCounts = new Map<string, number>();
  /** How often each status was, or was to be, answered. */
  readonly answerCounts = new Map<number, number>();
  gets = 0;
  posts = 0;
  /** Requests to the target of the fault `redirect`. */
  redirectsFollowed = 0;
  readonly #random: Random;
  readonly #closing = new AbortController();
  readonly #onMessage: MessageHook | undefined;

  constructor(live: LiveSettings, ledger: Ledger, onMessage?: MessageHook) {
    this.live = live;
    this.ledger = ledger;
    this.#onMessage = onMessage;
    this.#random = createRandom(live.current.seed);
    this.jobs = new JobStore(() => live.current, this.#random);
    // Every waiting request listens to it.
    setMaxListeners(0, this.closing);
  }

  get settings(): SimulatorSettings {
    return this.live.current;
  }

  /** Aborts when the simulator closes. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  close(): void {
    this.#closing.abort();
  }

  /** Waits; rejects when the simulator closes. */
  async wait(ms: number): Promise<void> {
    if (ms > 0) await sleep(ms, undefined, { signal: this.closing });
  }

  /** Reports that a message has reached a step, and waits for the hook. */
  async reach(step: MessageStep, { projectId, jobId }: ServiceRequest, prompt: string | null): Promise<void> {
    await this.#onMessage?.({ step, projectId, jobId, prompt });
  }

  /** Draws the plan of a request, by its number among those with this method to this job. */
  plan(method: 'GET' | 'POST', { projectId, jobId }: ServiceRequest): RequestPlan {
    const { latency, countAt, faults } = this.settings;
    const number = this.jobs.countRequest(method, projectId, jobId);
    const random = this.#random.fork(`${method} ${projectId}/${jobId} ${number}`);
    const fault = this.faults.next({ method, projectId, jobId }, faults, random);
    if (fault) this.faultCounts.set(fault.kind, (this.faultCounts.get(fault.kind) ?? 0) + 1);
    const latencyMs = random.between(latency.minMs, latency.maxMs);
    const drawnBeforeMs = Math.floor(latencyMs * random.next());
    const beforeMs = countAt === 'random' ? drawnBeforeMs : 0;
    return { fault, beforeMs, afterMs: latencyMs - beforeMs, random };
  }

  /** Whether a request carries the project's key. */
  authorized({ projectId, authorization }: ServiceRequest): boolean {
    const { apiKey, apiKeys } = this.settings;
    return authorization === `Bearer ${Object.hasOwn(apiKeys, projectId) ? apiKeys[projectId] : apiKey}`;
  }

  /** The header that an answer echoes, if the option `echoAuthorization` says so. */
  echoed(request: ServiceRequest, kind: 'job' | 'error'): string | undefined {
    const { echoAuthorization } = this.settings;
    return echoAuthorization === true || (echoAuthorization === 'errors' && kind === 'error')
      ? (request.authorization ?? '')
      : undefined;
  }

  budget(projectId: string, nowMs: number): ProjectBudget {
    const existing = this.budgets.get(projectId);
    if (existing) return existing;
    const { limiter, outsider } = this.settings;
    const budget = new ProjectBudget(limiter, outsider, this.#random.fork(`outsider ${projectId}`), nowMs);
    this.budgets.set(projectId, budget);
    return budget;
  }

  /** Retry-After of a 429 that is a fault. */
  faultRetryAfter(fault: Fault, random: Random): Record<string, string> {
    const { retryAfter, faultRetryAfterMs } = this.settings;
    return retryAfterHeader(
      fault.retryAfter ?? retryAfter,
      fault.retryAfterMs ?? faultRetryAfterMs,
      Date.now(),
      random,
    );
  }
}
