import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { defined } from '../contract/defined.js';
import type { Fault, RetryAfterForm } from './fault-plan.js';
import type { Random } from './random.js';
import type { ServiceJob } from './simulated-job.js';

/** How an answer is sent. */
type Manner = 'whole' | 'reset' | 'hang' | 'drip' | 'reset-mid-body' | 'huge';

export interface Answer {
  /** 0: no answer is sent. */
  status: number;
  headers: Record<string, string>;
  text: string;
  manner: Manner;
  /** Called after it was handed to the socket. */
  afterDelivery?: () => Promise<void>;
}

/** Value of the fault `hostilePrLink`: a script URL, terminal escapes, a line break, markup, 2,000 characters. */
export const HOSTILE_PR_LINK = `javascript:alert(1)//\u001b]8;;https://evil.example\u0007\r\n<img src=x onerror=alert(1)>${'A'.repeat(1_920)}`;

/** Value of the fault `unknownStatus`. */
export const UNKNOWN_STATUS = 'reviewing';

/** A job with its status or, in the answer to a message as in the interface's sample, without it. */
export function jobAnswer(job: ServiceJob, options: { withStatus: boolean; echoed?: string | undefined }): Answer {
  const { status, ...rest } = job;
  const shown = { ...rest, ...(options.withStatus ? { status } : {}) };
  const body =
    options.echoed === undefined
      ? shown
      : { ...shown, model: `${job.model} ${options.echoed}`, debug: { authorization: options.echoed } };
  return json(200, body);
}

/** The interface's Error body. */
export function errorAnswer(
  status: number,
  message: string,
  options: { echoed?: string | undefined; headers?: Record<string, string> } = {},
): Answer {
  const error = options.echoed === undefined ? message : `${message} (authorization: ${options.echoed})`;
  return json(status, { error }, options.headers);
}

/** The answer to a request that a fault stops before its job. */
export function faultAnswer(
  fault: Fault,
  context: { echoed?: string | undefined; redirectLocation: string; retryAfter: Record<string, string> },
): Answer {
  const { echoed } = context;
  const error = (status: number, message: string, headers?: Record<string, string>): Answer =>
    errorAnswer(status, fault.message ?? message, { echoed, ...defined({ headers }) });
  switch (fault.kind) {
    case 'http404':
      return error(404, 'agent job not found');
    case 'http500':
      return error(500, 'internal error');
    case 'http503':
    case 'http503AfterApply':
      return error(503, 'service unavailable');
    case 'limited':
      return error(429, 'rate limit exceeded', context.retryAfter);
    case 'unauthorized':
      return error(401, 'invalid API key');
    case 'redirect':
      return error(307, 'moved', { location: context.redirectLocation });
    case 'status':
      return error(fault.statusCode ?? 500, 'planned answer');
    default:
      return { status: 0, headers: {}, text: '', manner: fault.kind.startsWith('hang') ? 'hang' : 'reset' };
  }
}

/** Distorts the answer to a successful request. */
export function bendAnswer(answer: Answer, fault: Fault): Answer {
  const text = (change: object): string => JSON.stringify({ ...(JSON.parse(answer.text) as object), ...change });
  switch (fault.kind) {
    case 'resetBefore':
    case 'resetAfter':
      return { ...answer, manner: 'reset' };
    case 'hangBefore':
    case 'hangAfter':
      return { ...answer, manner: 'hang' };
    case 'resetMidBody':
      return { ...answer, manner: 'reset-mid-body' };
    case 'slowBody':
      return { ...answer, manner: 'drip' };
    case 'hugeBody':
      return { ...answer, manner: 'huge' };
    case 'html200':
      return {
        ...answer,
        headers: { 'content-type': 'text/html; charset=utf-8' },
        text: '<!doctype html><title>Sign in</title><h1>Please sign in</h1>',
      };
    case 'invalidJson':
      return { ...answer, text: answer.text.slice(0, answer.text.length / 2) };
    case 'unknownStatus':
      return { ...answer, text: text({ status: UNKNOWN_STATUS }) };
    case 'hostilePrLink':
      return { ...answer, text: text({ prLink: HOSTILE_PR_LINK }) };
    default:
      return answer;
  }
}

/**
 * The Retry-After header of a 429, rounded up to whole seconds in both of its forms; empty if there is
 * none.
 */
export function retryAfterHeader(
  form: RetryAfterForm,
  waitMs: number,
  nowMs: number,
  random: Random,
): Record<string, string> {
  const chosen = form === 'mixed' ? (['none', 'seconds', 'date'] as const)[random.between(0, 2)] : form;
  if (chosen === 'seconds') return { 'retry-after': String(Math.ceil(waitMs / 1_000)) };
  if (chosen === 'date') {
    return { 'retry-after': new Date(Math.ceil((nowMs + waitMs) / 1_000) * 1_000).toUTCString() };
  }
  return {};
}

function json(status: number, body: unknown, headers: Record<string, string> = {}): Answer {
  return {
    status,
    headers: { 'content-type': 'application/json; charset=utf-8', ...headers },
    text: JSON.stringify(body),
    manner: 'whole',
  };
}

const DRIPS = 20;
const CHUNK_BYTES = 65_536;
/** Time for the written bytes to leave: a reset would overtake them. */
const FLUSH_MS = 25;

/** Sends an answer in its manner. Rejects with an AbortError if `signal` aborts. */
export async function deliver(
  answer: Answer,
  response: ServerResponse,
  options: { slowBodyMs: number; hugeBodyBytes: number; signal: AbortSignal },
): Promise<void> {
  const { signal } = options;
  const socket = response.socket;
  switch (answer.manner) {
    case 'whole':
      response.writeHead(answer.status, answer.headers).end(answer.text);
      return;
    case 'hang':
      return;
    case 'reset':
      reset(socket);
      return;
    case 'reset-mid-body':
      response.writeHead(answer.status, { ...answer.headers, 'content-length': Buffer.byteLength(answer.text) });
      response.write(answer.text.slice(0, answer.text.length / 2));
      await sleep(FLUSH_MS, undefined, { signal });
      reset(socket);
      return;
    case 'drip':
      await drip(answer, response, options.slowBodyMs, signal);
      return;
    case 'huge':
      await sendHuge(answer, response, options.hugeBodyBytes);
  }
}

/** Ends a connection with RST. */
export function reset(socket: Socket | null): void {
  socket?.resetAndDestroy();
}

async function drip(answer: Answer, response: ServerResponse, totalMs: number, signal: AbortSignal): Promise<void> {
  const bytes = Buffer.from(answer.text);
  const size = Math.ceil(bytes.length / DRIPS);
  response.writeHead(answer.status, { ...answer.headers, 'content-length': bytes.length });
  response.flushHeaders();
  for (let start = 0; start < bytes.length && !response.destroyed; start += size) {
    await sleep(totalMs / DRIPS, undefined, { signal });
    response.write(bytes.subarray(start, start + size));
  }
  response.end();
}

/** The JSON object with one more field that makes the body as large as requested. */
async function sendHuge(answer: Answer, response: ServerResponse, totalBytes: number): Promise<void> {
  const head = `${answer.text.slice(0, -1)},"padding":"`;
  const chunk = Buffer.alloc(CHUNK_BYTES, 'a');
  response.writeHead(answer.status, answer.headers);
  response.write(head);
  for (let left = totalBytes - head.length - 2; left > 0 && !response.destroyed; left -= CHUNK_BYTES) {
    const more = response.write(left < CHUNK_BYTES ? chunk.subarray(0, left) : chunk);
    if (!more) await drained(response);
  }
  response.end('"}');
}

/** Resolves when more can be written, or the connection is gone. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off('drain', done);
      response.off('close', done);
      resolve();
    };
    response.on('drain', done);
    response.on('close', done);
    if (response.destroyed) done();
  });
}
