import type { AgentJob } from '../contract/agent-job.js';
import type { SendOutcome } from '../contract/budget-messages.js';
import type { Answer } from './answer.js';
import { describeNetworkError } from './network-error.js';
import { parseRetryAfterMs } from './retry-after.js';
import { errorText, parseJob } from './service-json.js';
import { cutText, type Mask } from './service-text.js';
import { getOutcomeOf, sendOutcomeOf, type GetJobFailureReason } from './status-outcome.js';

/** What {@link AgentJobsClient.getJob} gives. No text in it holds the API key. */
export type GetJobOutcome =
  | { kind: 'job'; job: AgentJob }
  | { kind: 'notFound'; message: string }
  | { kind: 'failed'; reason: GetJobFailureReason; message: string; statusCode?: number; retryAfterMs?: number };

/** What {@link AgentJobsClient.sendMessage} gives. No text in it holds the API key. */
export interface SendMessageOutcome {
  /**
   * `sent`: 2xx. `notSent`: proof that no byte of the request was written. `rejected`: the service refused it, or the ids
   * may not stand in a path. `unauthorized`: 401 or 403, or there is no API key for the project (then nothing was sent,
   * there is no `statusCode`, and the project has to wait for a key just the same). `limited`: 429. `unknown`: everything
   * else.
   */
  outcome: SendOutcome;
  statusCode?: number;
  /** The job of a `sent` whose body could be read. */
  job?: AgentJob;
  /** What happened, at most 500 characters of it in the service's words; always there unless `job` is. */
  message?: string;
  /** From the Retry-After of a `limited`. */
  retryAfterMs?: number;
}

/** What an answer to a GET means. `error`: why its body is missing. */
export function interpretGet({ statusCode, headers, body }: Answer, error: unknown, mask: Mask): GetJobOutcome {
  const outcome = getOutcomeOf(statusCode);
  const message = describeStatus(statusCode, body, mask);
  if (outcome === 'notFound') return { kind: 'notFound', message };
  if (outcome !== 'job') {
    const retryAfterMs = parseRetryAfterMs(headers['retry-after'], headers['date'], Date.now());
    return {
      kind: 'failed',
      reason: outcome,
      message,
      statusCode,
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    };
  }
  if (body === undefined) {
    const { kind, text } = describeNetworkError(error, mask);
    const reason = kind === 'too-big' ? 'invalid-body' : kind;
    return { kind: 'failed', reason, message: `HTTP ${statusCode}, but its body was lost: ${text}`, statusCode };
  }
  const parsed = parseJob(body, mask);
  if (parsed.ok) return { kind: 'job', job: parsed.job };
  return { kind: 'failed', reason: 'invalid-body', message: `HTTP ${statusCode}, but ${parsed.problem}`, statusCode };
}

/** What an answer to a POST means. `error`: why its body is missing. */
export function interpretSend({ statusCode, headers, body }: Answer, error: unknown, mask: Mask): SendMessageOutcome {
  const outcome = sendOutcomeOf(statusCode);
  if (outcome !== 'sent') {
    const retryAfterMs =
      outcome === 'limited' ? parseRetryAfterMs(headers['retry-after'], headers['date'], Date.now()) : undefined;
    const message = describeStatus(statusCode, body, mask);
    return { outcome, statusCode, message, ...(retryAfterMs !== undefined && { retryAfterMs }) };
  }
  if (body === undefined) {
    const { text } = describeNetworkError(error, mask);
    return { outcome, statusCode, message: `delivered, but the answer's body was lost: ${text}` };
  }
  const parsed = parseJob(body, mask);
  return parsed.ok
    ? { outcome, statusCode, job: parsed.job }
    : { outcome, statusCode, message: `delivered, but the answer could not be read: ${parsed.problem}` };
}

/** Status and the service's words, where there are any. */
function describeStatus(statusCode: number, body: string | undefined, mask: Mask): string {
  const redirect = statusCode >= 300 && statusCode < 400 ? ' (a redirect, which is not followed)' : '';
  const words = body === undefined ? '' : errorText(body, mask);
  return cutText(`HTTP ${statusCode}${redirect}${words === '' ? '' : `: ${words}`}`);
}
