import { defined } from '../common/index.js';
import type { AgentJob, SendOutcome } from '../contract/index.js';
import { type GetJobFailureReason, meaningOf, refusalOf } from '../protocol/index.js';
import type { PostResult } from './post-once.js';
import { describeNetworkError, describeStatus, encodingProblem, type getOnce, type HttpResponse } from './response.js';
import { parseRetryAfterMs } from './retry-after.js';
import { type Mask, type ReadBody, readBody } from './service-text.js';

/** Result of {@link AgentJobsClient.getJob}. No text in it holds the API key. */
export type GetJobOutcome =
  | { kind: 'job'; job: AgentJob }
  | { kind: 'notFound'; message: string }
  | { kind: 'failed'; reason: GetJobFailureReason; message: string; statusCode?: number; retryAfterMs?: number };

/** Result of {@link AgentJobsClient.sendMessage}. No text in it holds the API key. */
export interface SendMessageOutcome {
  /**
   * What the response means: see `responseMeanings`. `notSent`: certainly no byte of the request was written, or there
   * is no API key for the project, which another worker may have. `rejected`: also if the ids are not safe in a path.
   */
  outcome: SendOutcome;
  statusCode?: number;
  /** The job, if the outcome is `sent` and the body was readable. */
  job?: AgentJob;
  /** What happened, with at most 500 characters of the service's text. Always present if `job` is not. */
  message?: string;
  /** From the Retry-After of a `limited`, `payment` or `credentials` response. */
  retryAfterMs?: number;
}

/** Interprets the end of a GET. `error` says why the response or its body is missing. */
export function interpretGet({ response, error }: Awaited<ReturnType<typeof getOnce>>, mask: Mask): GetJobOutcome {
  if (!response) {
    const { kind, text } = describeNetworkError(error, mask);
    return { kind: 'failed', reason: kind === 'timeout' ? 'timeout' : 'network', message: `no response: ${text}` };
  }
  const { statusCode, headers, body } = response;
  const outcome = meaningOf(statusCode).ofRead;
  const message = describeStatus(response, mask);
  if (outcome === 'notFound') return { kind: 'notFound', message };
  if (outcome !== 'job') {
    const retryAfterMs = parseRetryAfterMs(headers['retry-after'], headers['date'], Date.now());
    return { kind: 'failed', reason: outcome, message, statusCode, ...defined({ retryAfterMs }) };
  }
  const read = readJobOf(response, error, mask);
  if ('job' in read) return { kind: 'job', job: read.job };
  const { kind } = describeNetworkError(error, mask);
  const reason = body === undefined && kind !== 'too-big' ? kind : 'invalid-body';
  return { kind: 'failed', reason, message: `HTTP ${statusCode}, but ${read.problem}`, statusCode };
}

/** Interprets the end of a POST. */
export function interpretPost(result: PostResult, mask: Mask): SendMessageOutcome {
  const textOf = (error: unknown) => describeNetworkError(error, mask).text;
  switch (result.kind) {
    case 'response':
      return interpretSend(result.response, result.error, mask);
    case 'notStarted': {
      const why = result.isVetoed ? 'the final check before the send failed' : textOf(result.error);
      return { outcome: 'notSent', message: `nothing was sent: ${why}` };
    }
    case 'noResponse': {
      const message = `there was no response, and the message may have been delivered: ${textOf(result.error)}`;
      return { outcome: 'unknown', message };
    }
  }
}

/** Interprets the response to a POST. `error` says why its body is missing. */
function interpretSend(response: HttpResponse, error: unknown, mask: Mask): SendMessageOutcome {
  const { statusCode, headers } = response;
  const read = readJobOf(response, error, mask);
  const outcome = meaningOf(statusCode, read.kind).ofMessage;
  if (outcome !== 'sent') {
    const isRefused = refusalOf(outcome) !== undefined;
    const retryAfterMs = isRefused ? parseRetryAfterMs(headers['retry-after'], headers['date'], Date.now()) : undefined;
    return { outcome, statusCode, message: describeStatus(response, mask), ...defined({ retryAfterMs }) };
  }
  return 'job' in read
    ? { outcome, statusCode, job: read.job }
    : { outcome, statusCode, message: `delivered, but ${read.problem}` };
}

/** Reads the job of a response. `error` says why its body is missing. */
function readJobOf({ headers, body }: HttpResponse, error: unknown, mask: Mask): ReadBody {
  if (body === undefined) {
    return { kind: 'unread', problem: `the response's body was lost: ${describeNetworkError(error, mask).text}` };
  }
  const problem = encodingProblem(headers, mask);
  return problem === undefined ? readBody(body, mask) : { kind: 'unread', problem };
}
