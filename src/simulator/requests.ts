import type { IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { idSchema } from '../contract/index.js';
import { FaultPlan, type PlannedFault } from './faults.js';
import { JobStore } from './jobs.js';
import type { Ledger, LedgerEntry } from './ledger.js';
import { type Limiter, slidingLimiter } from './limiter.js';
import { createRandom, type Random } from './random.js';
import {
  errorResponse,
  failedResponse,
  jobResponse,
  retryAfterHeader,
  type SimulatedResponse,
  struckResponse,
} from './responses.js';
import type { SimulatorSettings } from './simulator-options.js';

/**
 * Steps of a message request: it has arrived, before any decision; it is in the ledger; its response is written to the
 * socket.
 */
export type MessageStep = 'received' | 'recorded' | 'responded';

/** What a test adds to the service. */
export interface SimulatorHooks {
  /** Called at each step of a message, which waits until it resolves. */
  onMessage?: (reached: { step: MessageStep; projectId: string; jobId: string }) => Promise<void> | void;
  /** The limiter of a project, instead of the option's. */
  createLimiter?: () => Limiter;
}

interface ServiceRequest {
  projectId: string;
  jobId: string;
  authorization: string | undefined;
  contentType: string | undefined;
  body: Buffer;
}

type Decision = { response: SimulatedResponse } & Pick<LedgerEntry, 'countedAtMs' | 'accepted'>;

const SERVICE_PATH = /^\/v2\/agent\/([^/]+)\/job\/([^/]+?)(\/message)?$/;
const promptSchema = z.looseObject({ prompt: z.string() });

export class Service {
  readonly jobs: JobStore;
  readonly faults = new FaultPlan();
  gets = 0;
  readonly #limiters = new Map<string, Limiter>();
  /** Number of requests by method and job, even for an unknown job. */
  readonly #requests = new Map<string, number>();
  readonly #random: Random;

  /** @param closing ends every wait when it aborts */
  constructor(
    private readonly settings: SimulatorSettings,
    private readonly ledger: Ledger,
    private readonly closing: AbortSignal,
    private readonly hooks: SimulatorHooks,
  ) {
    this.#random = createRandom(settings.seed);
    this.jobs = new JobStore(settings, this.#random);
  }

  /** Number of requests of a method for a job, including refused ones and those struck by a fault. */
  requestsFor(method: 'GET' | 'POST', projectId: string, jobId: string): number {
    return this.#requests.get(`${method} ${projectId}/${jobId}`) ?? 0;
  }

  /** Responds to a request of which the whole body was read. Resolves when the response is due. */
  async respondTo({ method, url, headers }: IncomingMessage, body: Buffer): Promise<SimulatedResponse> {
    // Not a parsed URL, in which ".." would be resolved: an id with it must not reach another job.
    const [, projectId = '', jobId = '', message] = SERVICE_PATH.exec(url?.split('?')[0] ?? '') ?? [];
    const areIds = [projectId, jobId].every((id) => idSchema.safeParse(id).success);
    const { authorization, 'content-type': contentType } = headers;
    const request = { projectId, jobId, authorization, contentType, body };
    if (areIds && method === 'GET' && !message) return this.#getJob(request);
    if (areIds && method === 'POST' && message) return this.#postMessage(request);
    return errorResponse(404, 'not found');
  }

  /** `GET /v2/agent/{projectId}/job/{id}`. Resolves when the response is due. */
  async #getJob(request: ServiceRequest): Promise<SimulatedResponse> {
    this.gets++;
    const { fault, latencyMs } = this.#begin('GET', request);
    const response = this.#read(request, fault);
    await this.#wait(latencyMs);
    return response;
  }

  #read(request: ServiceRequest, fault: PlannedFault | undefined): SimulatedResponse {
    if (!this.#isAuthorized(request)) return errorResponse(401, 'invalid API key');
    if (fault && fault.when !== 'after') return failedResponse(fault.how);
    const nowMs = Date.now();
    const job = this.jobs.find(request.projectId, request.jobId, nowMs);
    if (!job) return errorResponse(404, 'agent job not found');
    const whole = jobResponse(job.shown(nowMs), { withStatus: true });
    return fault ? struckResponse(whole, fault.how) : whole;
  }

  /** `POST /v2/agent/{projectId}/job/{id}/message`. Resolves when the response is due, after the ledger has the entry. */
  async #postMessage(request: ServiceRequest): Promise<SimulatedResponse> {
    const { projectId, jobId } = request;
    const receivedAtMs = Date.now();
    const { fault, latencyMs } = this.#begin('POST', request);
    const reach = async (step: MessageStep): Promise<void> => this.hooks.onMessage?.({ step, projectId, jobId });
    await reach('received');
    const prompt = readPrompt(request.body);
    const { response, ...decided } = this.#decide(request, prompt, fault);
    this.ledger.append({ receivedAtMs, projectId, jobId, prompt, ...decided, status: response.status });
    await reach('recorded');
    await this.#wait(latencyMs);
    return { ...response, afterDelivery: () => reach('responded') };
  }

  /**
   * Decides in this order: the key, a fault that is a 401 or a 429, the rate limit, other faults before the effect, the
   * message itself. So everything that passes the limiter counts, even if it is then refused with 400 or 404, or lost:
   * the strictest reading of "uses".
   */
  #decide(request: ServiceRequest, prompt: string | null, fault: PlannedFault | undefined): Decision {
    const nowMs = Date.now();
    const refuse = (response: SimulatedResponse, countedAtMs: number | null): Decision => ({
      response,
      countedAtMs,
      accepted: false,
    });
    if (!this.#isAuthorized(request)) return refuse(errorResponse(401, 'invalid API key'), null);
    const struck = fault && fault.when !== 'after' ? failedResponse(fault.how) : undefined;
    if (struck?.status === 401 || struck?.status === 429) return refuse(struck, null);

    const availableInMs = this.#limiterOf(request.projectId)(nowMs);
    if (availableInMs > 0) {
      const headers = retryAfterHeader(this.settings.retryAfter, availableInMs);
      return refuse(errorResponse(429, 'rate limit exceeded', headers), null);
    }
    if (struck) return refuse(struck, nowMs);

    const job = this.jobs.find(request.projectId, request.jobId, nowMs);
    if (!job) return refuse(errorResponse(404, 'agent job not found'), nowMs);
    const isJson = request.contentType?.split(';')[0]?.trim().toLowerCase() === 'application/json';
    if (!isJson) return refuse(errorResponse(400, 'Content-Type must be application/json'), nowMs);
    if (!prompt) return refuse(errorResponse(400, 'prompt must be a string of at least 1 character'), nowMs);
    if (job.truth(nowMs).status === 'archived') return refuse(errorResponse(400, 'agent job is archived'), nowMs);

    job.message(nowMs);
    const whole = jobResponse(job.truth(nowMs), { withStatus: this.settings.statusInPostResponse });
    return { response: fault ? struckResponse(whole, fault.how) : whole, countedAtMs: nowMs, accepted: true };
  }

  /** The latency of a request depends only on the seed and its number among those of its method and job. */
  #begin(method: 'GET' | 'POST', { projectId, jobId }: ServiceRequest) {
    const number = this.requestsFor(method, projectId, jobId) + 1;
    this.#requests.set(`${method} ${projectId}/${jobId}`, number);
    const random = this.#random.fork(`${method} ${projectId}/${jobId} ${number}`);
    const { minMs, maxMs } = this.settings.latency;
    return { fault: this.faults.next({ method, projectId, jobId }), latencyMs: random.between(minMs, maxMs) };
  }

  #isAuthorized({ projectId, authorization }: ServiceRequest): boolean {
    const { apiKey, apiKeys } = this.settings;
    return authorization === `Bearer ${Object.hasOwn(apiKeys, projectId) ? apiKeys[projectId] : apiKey}`;
  }

  #limiterOf(projectId: string): Limiter {
    const { limiter } = this.settings;
    const create = () => this.hooks.createLimiter?.() ?? (limiter ? slidingLimiter(limiter) : () => 0);
    const found = this.#limiters.get(projectId) ?? create();
    this.#limiters.set(projectId, found);
    return found;
  }

  async #wait(ms: number): Promise<void> {
    if (ms > 0) await sleep(ms, undefined, { signal: this.closing });
  }
}

function readPrompt(body: Buffer): string | null {
  try {
    return promptSchema.parse(JSON.parse(body.toString('utf8'))).prompt;
  } catch {
    return null;
  }
}
