import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Drip, Failure } from './faults.js';
import type { ServiceJob } from './jobs.js';
import type { RetryAfterForm } from './simulator-options.js';

export interface SimulatedResponse {
  /** 0: none is sent. */
  status: number;
  headers: Record<string, string>;
  text: string;
  /** How it is sent, unless whole and at once. */
  how?: 'reset' | 'hang' | Drip;
  /** Called after it was written to the socket. */
  afterDelivery?: () => Promise<void>;
}

/** A job with its status or, as in the interface's sample response to a message, without it. */
export function jobResponse(job: ServiceJob, { withStatus }: { withStatus: boolean }): SimulatedResponse {
  return json(200, withStatus ? job : { ...job, status: undefined });
}

export function errorResponse(status: number, error: string, headers: Record<string, string> = {}): SimulatedResponse {
  return json(status, { error }, headers);
}

export function failedResponse(how: Failure): SimulatedResponse {
  if (typeof how === 'string') return { status: 0, headers: {}, text: '', how };
  return errorResponse(how.status, how.error ?? 'planned response', how.headers);
}

/** The response if a fault strikes after the request has taken effect. */
export function struckResponse(response: SimulatedResponse, how: Failure | Drip): SimulatedResponse {
  return typeof how === 'object' && 'dripMs' in how ? { ...response, how } : failedResponse(how);
}

/** The Retry-After header of a 429, in whole seconds, rounded up, in both forms; empty if there is none. */
export function retryAfterHeader(form: RetryAfterForm, waitMs: number): Record<string, string> {
  if (form === 'none') return {};
  if (form === 'seconds') return { 'retry-after': String(Math.ceil(waitMs / 1_000)) };
  return { 'retry-after': new Date(Math.ceil((Date.now() + waitMs) / 1_000) * 1_000).toUTCString() };
}

function json(status: number, body: unknown, headers: Record<string, string> = {}): SimulatedResponse {
  return {
    status,
    headers: { 'content-type': 'application/json; charset=utf-8', ...headers },
    text: JSON.stringify(body),
  };
}

const DRIPS = 20;

/** Sends a response. Rejects with an AbortError if `signal` aborts. */
export async function deliver(
  { how, ...simulated }: SimulatedResponse,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  if (how === 'hang') return;
  if (how === 'reset') {
    response.socket?.resetAndDestroy();
    return;
  }
  const bytes = Buffer.from(simulated.text);
  response.writeHead(simulated.status, { ...simulated.headers, 'content-length': bytes.length });
  if (how) {
    response.flushHeaders();
    const size = Math.ceil(bytes.length / DRIPS);
    for (let start = 0; start < bytes.length && !response.destroyed; start += size) {
      await sleep(how.dripMs / DRIPS, undefined, { signal });
      response.write(bytes.subarray(start, start + size));
    }
    response.end();
  } else {
    response.end(bytes);
  }
}
