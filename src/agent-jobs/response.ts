import type * as net from 'node:net';
import type { Agent, Dispatcher } from 'undici';
import { codeOf } from '../common/index.js';
import { cleanLine, cleanString, cutText, errorText, type Mask } from './service-text.js';

/** Headers with names in lower case. */
export type ResponseHeaders = Readonly<Record<string, string | string[] | undefined>>;

export interface HttpResponse {
  statusCode: number;
  headers: ResponseHeaders;
  /** Missing if it was lost or too long. */
  body?: string;
}

export class DeadlineError extends Error {
  override name = 'DeadlineError' as const;
}

/**
 * Reads a response into `attempt`: status and headers as soon as they arrive, so that they count even if the body is
 * lost. Returns the error that ended the exchange early, if any.
 */
export async function readResponse(
  response: Promise<Dispatcher.ResponseData>,
  attempt: { response?: HttpResponse },
): Promise<unknown> {
  try {
    const { statusCode, headers, body } = await response;
    const received: HttpResponse = { statusCode, headers };
    attempt.response = received;
    received.body = await body.text();
    return undefined;
  } catch (error) {
    return error ?? new Error('the request failed without an error');
  }
}

/**
 * Returns the error of `exchange`, or a {@link DeadlineError} if it has not ended in time. Uses a race, because a
 * request that still waits for its connection does not notice an abort.
 */
export async function withinDeadline(deadlineMs: number, exchange: Promise<unknown>): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<DeadlineError>((resolve) => {
    timer = setTimeout(() => resolve(new DeadlineError(`the deadline of ${deadlineMs} ms has passed`)), deadlineMs);
  });
  try {
    return await Promise.race([deadline, exchange]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Sends one GET through an agent, without redirects or retries: the caller polls. Never throws.
 *
 * @param deadlineMs for everything: waiting for a connection, connecting, TLS, and reading the response
 * @returns a response (`error` says why its body is missing), or none
 */
export async function getOnce(
  agent: Agent,
  request: { origin: string; path: string; headers: Record<string, string> },
  deadlineMs: number,
): Promise<{ response?: HttpResponse; error: unknown }> {
  const abort = new AbortController();
  const attempt: { response?: HttpResponse } = {};
  const response = agent.request({ ...request, method: 'GET', signal: abort.signal });
  const error = await withinDeadline(deadlineMs, readResponse(response, attempt));
  if (error !== undefined) abort.abort();
  return { ...attempt, error };
}

/** 1xx without 101: a switch to another protocol is a final, unusable response. */
const INTERIM_STATUS = /^HTTP\/1\.[01] 1(?!01)\d\d/;
const VERSION = 'HTTP/1.';
const STATUS_BYTES = 'HTTP/1.1 100'.length;
const HEAD_END = '\r\n\r\n';
/** Longest head of an interim response, the same as undici's for a final one. */
const MAX_HEAD_BYTES = 16_384;

/**
 * Removes interim responses from what a socket reads. A server or a proxy may send any 1xx before its response, and a
 * client has to skip them (RFC 9110 section 15.2). undici gives up a connection, and with it the response, at an
 * unrequested `100 Continue`.
 */
export function skipInterim<S extends net.Socket>(socket: S): S {
  const read = socket.read.bind(socket);
  /** Bytes of a possible interim response that is still incomplete. */
  let buffered: Buffer = Buffer.alloc(0);
  /** Bytes written when the last final response began. Until the next request, its body is read. */
  let finalAtBytes: number | undefined;

  socket.read = (size?: number): unknown => {
    const chunk: unknown = read(size);
    if (!Buffer.isBuffer(chunk) || socket.bytesWritten === finalAtBytes) return chunk;
    buffered = afterInterim(Buffer.concat([buffered, chunk]));
    if (mayBeInterim(buffered)) return null;
    const response = buffered;
    buffered = Buffer.alloc(0);
    finalAtBytes = socket.bytesWritten;
    return response;
  };
  return socket;
}

function afterInterim(bytes: Buffer): Buffer {
  const end = isInterim(bytes) ? bytes.indexOf(HEAD_END) : -1;
  return end < 0 ? bytes : afterInterim(bytes.subarray(end + HEAD_END.length));
}

function mayBeInterim(bytes: Buffer): boolean {
  if (bytes.length >= STATUS_BYTES) return bytes.length <= MAX_HEAD_BYTES && isInterim(bytes);
  return VERSION.startsWith(bytes.toString('latin1', 0, VERSION.length));
}

function isInterim(bytes: Buffer): boolean {
  return INTERIM_STATUS.test(bytes.toString('latin1', 0, STATUS_BYTES));
}

const TIMEOUT_CODES: ReadonlySet<string> = new Set(['UND_ERR_CONNECT_TIMEOUT', 'ETIMEDOUT']);

const UNTRUSTED =
  'this host does not trust the authority that signed its certificate; add that authority with NODE_EXTRA_CA_CERTS';

const HINTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing is listening at that address; check AGENT_JOBS_BASE_URL and that the service is running',
  ENOTFOUND: 'the host name cannot be resolved; check AGENT_JOBS_BASE_URL and DNS',
  EAI_AGAIN: 'DNS did not answer',
  DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another host name; check AGENT_JOBS_BASE_URL',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS there; check the scheme and port of AGENT_JOBS_BASE_URL',
  UND_ERR_HEADERS_OVERFLOW: "the response's headers are too long",
};

/**
 * Describes an error of the network or of undici by its code and cleaned message only. Never pass on the error itself:
 * undici's errors refer to the request's headers, which contain the key.
 */
export function describeNetworkError(
  error: unknown,
  mask: Mask,
): { kind: 'timeout' | 'too-big' | 'network'; text: string } {
  if (error instanceof DeadlineError) return { kind: 'timeout', text: error.message };
  if (!(error instanceof Error)) return { kind: 'network', text: 'unknown error' };
  const code = codeOf(error);
  if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE') return { kind: 'too-big', text: 'the body is too long' };
  const hint = code === undefined ? undefined : HINTS[code];
  // OpenSSL's own messages are addresses and source lines.
  const message = code?.startsWith('ERR_SSL_') ? 'TLS failed' : error.message || error.name;
  const name = code === undefined || message.includes(code) ? '' : ` (${code})`;
  const text = cleanLine(`${message}${name}${hint === undefined ? '' : `: ${hint}`}`, mask);
  return { kind: code !== undefined && TIMEOUT_CODES.has(code) ? 'timeout' : 'network', text };
}

/** The status and the service's text, if readable. */
export function describeStatus({ statusCode, headers, body }: HttpResponse, mask: Mask): string {
  const isRedirect = [301, 302, 303, 307, 308].includes(statusCode);
  const redirect = isRedirect ? ` (a redirect${redirectTarget(headers, mask)}, which is not followed)` : '';
  const text = body === undefined || body === '' ? '' : (encodingProblem(headers, mask) ?? errorText(body, mask));
  return cutText(`HTTP ${statusCode}${redirect}${text === '' ? '' : `: ${text}`}`);
}

/** The target of a redirect without user name, password, query and fragment, which may hold other secrets. */
function redirectTarget(headers: ResponseHeaders, mask: Mask): string {
  // Masked before it is cut, because half a key would not be recognised.
  const [location = ''] = cleanString([headers['location']].flat()[0] ?? '', mask).split(/[?#]/, 1);
  const target = cleanLine(location.replace(/^([a-z][a-z\d+.-]*:)?\/\/[^/]*@/i, '$1//'), mask);
  return target === '' ? '' : ` to ${cutText(target, 200)}`;
}

/** The problem with a response that is encoded although `identity` was requested. */
export function encodingProblem(headers: ResponseHeaders, mask: Mask): string | undefined {
  const encodings = cleanLine([headers['content-encoding']].flat().join(', '), mask);
  if (encodings === '' || encodings.toLowerCase() === 'identity') return undefined;
  return `its body has the content encoding ${cutText(encodings, 50)}, which was not requested`;
}
