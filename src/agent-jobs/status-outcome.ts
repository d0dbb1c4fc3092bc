import type { SendOutcome } from '../contract/budget-messages.js';

/**
 * How a send ended, by the status of its answer. 408, 409, 425 and 5xx are `unknown` like everything else that no rule
 * names: a gateway may give them for a request that was delivered.
 */
export function sendOutcomeOf(statusCode: number): SendOutcome {
  if (statusCode >= 200 && statusCode < 300) return 'sent';
  if (statusCode === 401 || statusCode === 403) return 'unauthorized';
  if (statusCode === 429) return 'limited';
  if (statusCode === 408 || statusCode === 409 || statusCode === 425) return 'unknown';
  return statusCode >= 400 && statusCode < 500 ? 'rejected' : 'unknown';
}

/** Why a GET gave no job. */
export type GetJobFailureReason =
  /** 401, 403. */
  | 'unauthorized'
  /** 429. */
  | 'limited'
  /** Other 4xx, or ids that may not stand in a path (then nothing was sent). */
  | 'rejected'
  /** 5xx, 3xx (never followed), 408, 409, 425. */
  | 'service'
  /** No connection, or it was lost. */
  | 'network'
  /** The deadline passed. */
  | 'timeout'
  /** 2xx, but its body is no job: not JSON, of wrong types, longer than the limit. */
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
  return outcome === 'unauthorized' || outcome === 'limited' || outcome === 'rejected' ? outcome : 'service';
}
