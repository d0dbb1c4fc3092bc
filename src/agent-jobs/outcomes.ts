import type { SendOutcome } from '../contract/budget.js';
import { defined } from '../contract/defined.js';
import type { AgentJob } from '../contract/follow-up.js';
import { refusalOf } from '../contract/protocol.js';
import { type Answer, describeNetworkError, describeStatus, encodingProblem, type ResponseHeaders } from './answer.js';
import { parseRetryAfterMs } from './retry-after.js';
import { type Mask, type ParsedJob, parseJob } from './service-text.js';

/** Result of {@link AgentJobsClient.getJob}. No text in it holds the API key. */
export type GetJobOutcome =
  | { kind: 'job'; job: AgentJob }
  | { kind: 'notFound'; message: string }
  | { kind: 'failed'; reason: GetJobFailureReason; message: string; statusCode?: number; retryAfterMs?: number };

/** Result of {@link AgentJobsClient.sendMessage}. No text in it holds the API key. */
export interface SendMessageOutcome {
  /**
   * `sent`: 2xx. `notSent`: it is proven that no byte of the request was written, or there is no API key for the
   * project, which another worker may have. `rejected`: the service refused it, or the ids are not safe in a path.
   * `unauthorized`: 401 or 403. `payment`: 402. `limited`: 429. `unknown`: any other answer, or none.
   */
  outcome: SendOutcome;
  statusCode?: number;
  /** The job, if the outcome is `sent` and the body could be read. */
  job?: AgentJob;
  /** What happened, with at most 500 characters of the service's words. Always present if `job` is not. */
  message?: string;
  /** From the Retry-After of a `limited`, `payment` or `unauthorized`. */
  retryAfterMs?: number;
}

/** What an answer to a GET means. `error` says why its body is missing. */
export function interpretGet(answer: Answer, error: unknown, mask: Mask): GetJobOutcome {
  const { statusCode, headers, body } = answer;
  const outcome = getOutcomeOf(statusCode);
  const message = describeStatus(answer, mask);
  if (outcome === 'notFound') return { kind: 'notFound', message };
  if (outcome !== 'job') {
    const retryAfterMs = parseRetryAfterMs(headers['retry-after'], headers['date'], Date.now());
    return {
      kind: 'failed',
      reason: outcome,
      message,
      statusCode,
      ...defined({ retryAfterMs }),
    };
  }
  if (body === undefined) {
    const { kind, text } = describeNetworkError(error, mask);
    const reason = kind === 'too-big' ? 'invalid-body' : kind;
    return { kind: 'failed', reason, message: `HTTP ${statusCode}, but its body was lost: ${text}`, statusCode };
  }
  const parsed = readJob(headers, body, mask);
  if (parsed.ok) return { kind: 'job', job: parsed.job };
  return { kind: 'failed', reason: 'invalid-body', message: `HTTP ${statusCode}, but ${parsed.problem}`, statusCode };
}

/** What an answer to a POST means. `error` says why its body is missing. */
export function interpretSend(answer: Answer, error: unknown, mask: Mask): SendMessageOutcome {
  const { statusCode, headers, body } = answer;
  const outcome = sendOutcomeOf(statusCode);
  if (outcome !== 'sent') {
    const isRefused = refusalOf(outcome) !== undefined;
    const retryAfterMs = isRefused ? parseRetryAfterMs(headers['retry-after'], headers['date'], Date.now()) : undefined;
    return { outcome, statusCode, message: describeStatus(answer, mask), ...defined({ retryAfterMs }) };
  }
  if (body === undefined) {
    const { text } = describeNetworkError(error, mask);
    return { outcome, statusCode, message: `delivered, but the answer's body was lost: ${text}` };
  }
  const parsed = readJob(headers, body, mask);
  return parsed.ok
    ? { outcome, statusCode, job: parsed.job }
    : { outcome, statusCode, message: `delivered, but the answer could not be read: ${parsed.problem}` };
}

function readJob(headers: ResponseHeaders, body: string, mask: Mask): ParsedJob {
  const problem = encodingProblem(headers, mask);
  return problem === undefined ? parseJob(body, mask) : { ok: false, problem };
}

/**
 * How a send ended, by the status of its answer. 408, 409, 425 and 5xx are `unknown`, like every status without a rule,
 * because a gateway may answer so to a request that was delivered.
 */
export function sendOutcomeOf(statusCode: number): SendOutcome {
  if (statusCode >= 200 && statusCode < 300) return 'sent';
  if (statusCode === 401 || statusCode === 403) return 'unauthorized';
  if (statusCode === 402) return 'payment';
  if (statusCode === 429) return 'limited';
  if (statusCode === 408 || statusCode === 409 || statusCode === 425) return 'unknown';
  return statusCode >= 400 && statusCode < 500 ? 'rejected' : 'unknown';
}

/** Why a GET gave no job. */
export type GetJobFailureReason =
  /** 401, 403. */
  | 'unauthorized'
  /** 402. */
  | 'payment'
  /** 429. */
  | 'limited'
  /** Other 4xx, or ids that are not safe in a path (then nothing was sent). */
  | 'rejected'
  /** 5xx, 3xx (never followed), 408, 409, 425. */
  | 'service'
  /** No connection, or it was lost. */
  | 'network'
  /** The deadline passed. */
  | 'timeout'
  /** 2xx, but its body is not a job: not JSON, wrong types, or too long. */
  | 'invalid-body'
  /** There is no API key for the project; nothing was sent. */
  | 'no-key'
  /** This worker does not serve the project; nothing was sent. */
  | 'not-served';

/** What an answer to a GET means, by its status. */
export function getOutcomeOf(statusCode: number): 'job' | 'notFound' | GetJobFailureReason {
  if (statusCode === 404) return 'notFound';
  const outcome = sendOutcomeOf(statusCode);
  if (outcome === 'sent') return 'job';
  return outcome === 'unknown' || outcome === 'notSent' ? 'service' : outcome;
}
