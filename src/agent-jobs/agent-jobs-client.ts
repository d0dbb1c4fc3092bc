import { Agent, buildConnector } from 'undici';
import { defined } from '../common/index.js';
import type { ApiKeys } from './api-keys.js';
import { createJobRequests, type JobAddress } from './job-request.js';
import { type GetJobOutcome, interpretGet, interpretPost, type SendMessageOutcome } from './outcomes.js';
import { postOnce } from './post-once.js';
import { getOnce, skipInterim } from './response.js';

/** Longest response that is read. A job is below 1 KiB. */
const MAX_RESPONSE_BYTES = 131_072;

/** Further GETs wait for a connection within their deadline. */
const MAX_GET_CONNECTIONS = 512;

interface SendMessageRequest extends JobAddress {
  /** At least 1 character. */
  prompt: string;
  /**
   * The last check, called at most once, after connecting and TLS and just before the first byte. If it returns `false`
   * or throws, nothing is written and the outcome is `notSent`.
   */
  mayStart: () => boolean;
}

export interface AgentJobsClient {
  /**
   * Reads a job. Never throws because of the service or the network. Also returns a job whose `id` is not the requested
   * one: the service decides what an id means.
   */
  getJob(job: JobAddress): Promise<GetJobOutcome>;
  /** Sends a follow-up message, at most once. Never throws because of the service or the network. */
  sendMessage(message: SendMessageRequest): Promise<SendMessageOutcome>;
  /** Waits for requests in progress, then closes the connections. Later calls send nothing. */
  close(): Promise<void>;
}

export interface AgentJobsClientOptions {
  /** `http` or `https`, without user name, query or fragment. A path prefix is allowed. */
  baseUrl: string;
  keys: ApiKeys;
  /** Total deadline of a GET, from the call to the last byte of the response. */
  getTimeoutMs: number;
  /** Total deadline of a POST, likewise. When it passes, the connection is reset. */
  sendTimeoutMs: number;
  /** For connecting, and for the TLS handshake of a POST; within the total deadline. @default 10_000 */
  connectTimeoutMs?: number | undefined;
  /** Certificate authorities to trust instead of the well-known ones, PEM. */
  ca?: string | undefined;
}

/**
 * Creates a client. It verifies TLS certificates, follows no redirects, retries and decompresses nothing, and ignores
 * `HTTP_PROXY` and similar variables. The settings' rules apply to its options.
 */
export function createAgentJobsClient(options: AgentJobsClientOptions): AgentJobsClient {
  const { getTimeoutMs, sendTimeoutMs, connectTimeoutMs = 10_000, ca } = options;
  const prepare = createJobRequests(options);
  const agent = createAgent(Math.min(connectTimeoutMs, getTimeoutMs), ca);
  const underWay = new Set<Promise<unknown>>();
  let closed = false;

  async function getJob(job: JobAddress): Promise<GetJobOutcome> {
    const prepared = await prepare(job);
    if (prepared.reason !== undefined) return { kind: 'failed', ...prepared };
    const { mask, ...request } = prepared;
    return interpretGet(await getOnce(agent, request, getTimeoutMs), mask);
  }

  async function sendMessage(message: SendMessageRequest): Promise<SendMessageOutcome> {
    const prepared = await prepare(message);
    if (prepared.reason !== undefined) {
      const outcome = prepared.reason === 'rejected' ? 'rejected' : 'notSent';
      return { outcome, message: `nothing was sent: ${prepared.message}` };
    }
    const { origin, path, headers, mask } = prepared;
    const result = await postOnce({
      origin,
      path: `${path}/message`,
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ prompt: message.prompt }),
      deadlineMs: sendTimeoutMs,
      connectTimeoutMs,
      maxResponseBytes: MAX_RESPONSE_BYTES,
      ca,
      mayStart: message.mayStart,
    });
    return interpretPost(result, mask);
  }

  /** Registers a request for `close` to wait for. */
  function track<T>(request: Promise<T>): Promise<T> {
    underWay.add(request);
    return request.finally(() => underWay.delete(request));
  }

  return {
    getJob: async (job) =>
      closed ? { kind: 'failed', reason: 'network', message: 'the client is closed' } : track(getJob(job)),
    sendMessage: async (message) =>
      closed ? { outcome: 'notSent', message: 'nothing was sent: the client is closed' } : track(sendMessage(message)),
    async close() {
      closed = true;
      await Promise.allSettled(underWay);
      await agent.destroy();
    },
  };
}

function createAgent(connectTimeoutMs: number, ca: string | undefined): Agent {
  const connect = buildConnector({ timeout: connectTimeoutMs, ...defined({ ca }) });
  return new Agent({
    connections: MAX_GET_CONNECTIONS,
    connect: (target, done) =>
      connect(target, (...[error, socket]) => (error ? done(error, null) : done(null, skipInterim(socket)))),
    maxResponseSize: MAX_RESPONSE_BYTES,
    // The total deadline covers both.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
}
