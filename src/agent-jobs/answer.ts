import type { Agent, Dispatcher } from 'undici';
import { cleanLine, cleanString, cutText, errorText, type Mask } from './service-text.js';

/** The headers of an answer, names in lower case. */
export type ResponseHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** An answer whose final status line arrived. */
export interface Answer {
  statusCode: number;
  headers: ResponseHeaders;
  /** Missing if it was lost or too long. */
  body?: string;
}

export class DeadlineError extends Error {
  override name = 'DeadlineError' as const;
}

/**
 * Reads an answer into `attempt`: status and headers as soon as they arrive, so that they count even if the body is
 * lost. Returns the error that ended the exchange early, or `undefined` if the answer was read to its end.
 */
export async function readAnswer(
  response: Promise<Dispatcher.ResponseData>,
  attempt: { answer?: Answer },
): Promise<unknown> {
  try {
    const { statusCode, headers, body } = await response;
    const answer: Answer = { statusCode, headers };
    attempt.answer = answer;
    answer.body = await body.text();
    return undefined;
  } catch (error) {
    return error ?? new Error('the request failed without an error');
  }
}

/**
 * Returns the error of `exchange`, or a {@link DeadlineError} if it has not ended in time. This is a race because a
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

export interface GetRequest {
  origin: string;
  path: string;
  headers: Record<string, string>;
  /** For everything: waiting for a connection, connecting, TLS, and reading the answer. */
  deadlineMs: number;
}

/** What became of a GET: an answer (`error` says why its body is missing), or none. */
export type GetResult = { kind: 'unanswered'; error: unknown } | { kind: 'answered'; answer: Answer; error: unknown };

/** Sends a GET through an agent, once. No redirect is followed, and the caller's polling is the retry. Never throws. */
export async function getOnce(agent: Agent, { deadlineMs, ...request }: GetRequest): Promise<GetResult> {
  const abort = new AbortController();
  const attempt: { answer?: Answer } = {};
  const response = agent.request({ ...request, method: 'GET', signal: abort.signal });
  const error = await withinDeadline(deadlineMs, readAnswer(response, attempt));
  if (error !== undefined) abort.abort();
  return attempt.answer ? { kind: 'answered', answer: attempt.answer, error } : { kind: 'unanswered', error };
}

/** An error of the network or of undici in words that are safe to show: only its code and its cleaned message. */
export interface DescribedError {
  kind: 'timeout' | 'too-big' | 'network';
  text: string;
}

const TIMEOUT_CODES: ReadonlySet<string> = new Set(['CONNECT_TIMEOUT', 'UND_ERR_CONNECT_TIMEOUT', 'ETIMEDOUT']);

const UNTRUSTED =
  'this host does not trust the authority that signed its certificate; add that authority with NODE_EXTRA_CA_CERTS';

/** Hints for the errors that somebody can fix. */
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
  UND_ERR_HEADERS_OVERFLOW: "the answer's headers are too long",
};

/**
 * Describes an error by an allowlist. The error itself must not be passed on: errors of undici refer to the request's
 * headers, and with them the key.
 */
export function describeNetworkError(error: unknown, mask: Mask): DescribedError {
  if (error instanceof DeadlineError) return { kind: 'timeout', text: error.message };
  if (!(error instanceof Error)) return { kind: 'network', text: 'unknown error' };
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined;
  if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE') return { kind: 'too-big', text: 'the body is too long' };
  const hint = code === undefined ? undefined : HINTS[code];
  // OpenSSL's own messages consist of addresses and source lines.
  const message = code?.startsWith('ERR_SSL_') ? 'TLS failed' : error.message || error.name;
  const name = code === undefined || message.includes(code) ? '' : ` (${code})`;
  const text = cleanLine(`${message}${name}${hint === undefined ? '' : `: ${hint}`}`, mask);
  return { kind: code !== undefined && TIMEOUT_CODES.has(code) ? 'timeout' : 'network', text };
}

/** The status and the service's words, if there are any that can be read. */
export function describeStatus({ statusCode, headers, body }: Answer, mask: Mask): string {
  const isRedirect = statusCode >= 300 && statusCode < 400;
  const redirect = isRedirect ? ` (a redirect${redirectTarget(headers, mask)}, which is not followed)` : '';
  const words = body === undefined || body === '' ? '' : (encodingProblem(headers, mask) ?? errorText(body, mask));
  return cutText(`HTTP ${statusCode}${redirect}${words === '' ? '' : `: ${words}`}`);
}

const MAX_LOCATION_LENGTH = 200;

/** Where a redirect leads, without user name, password, query and fragment, which may hold secrets of others. */
function redirectTarget(headers: ResponseHeaders, mask: Mask): string {
  // Masked before it is cut, because half a key would not be recognised.
  const [location = ''] = cleanString([headers['location']].flat()[0] ?? '', mask).split(/[?#]/, 1);
  const target = cleanLine(location.replace(/^([a-z][a-z\d+.-]*:)?\/\/[^/]*@/i, '$1//'), mask);
  return target === '' ? '' : ` to ${cutText(target, MAX_LOCATION_LENGTH)}`;
}

const MAX_ENCODING_LENGTH = 50;

/** What is wrong with an answer that is encoded although `identity` was requested. */
export function encodingProblem(headers: ResponseHeaders, mask: Mask): string | undefined {
  const encodings = cleanLine([headers['content-encoding']].flat().join(', '), mask);
  if (encodings === '' || encodings.toLowerCase() === 'identity') return undefined;
  return `its body has the content encoding ${cutText(encodings, MAX_ENCODING_LENGTH)}, which was not requested`;
}
