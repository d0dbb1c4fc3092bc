import { type Refusal, refusals, type SendOutcome } from '../contract/index.js';

/** What the body of a 2xx is: a job, nothing, something else, or unknown because it could not be read. */
export type BodyKind = 'job' | 'none' | 'other' | 'unread';

/**
 * Why a GET returned no job. `rejected`: also if the ids are not safe in a path (then nothing was sent). `service`: 3xx,
 * which is never followed, 408, 409, 425 or 5xx. `invalid-body`: also if it is too long, or not JSON.
 *
 * Without a status: `network`: no connection, or it was lost. `timeout`: the deadline passed. `no-key`: no API key for
 * the project. `not-served`: this worker does not serve the project. In the last two cases nothing was sent.
 */
export type GetJobFailureReason =
  Refusal | 'rejected' | 'service' | 'network' | 'timeout' | 'invalid-body' | 'no-key' | 'not-served';

/** What a response of the service means. */
export interface ResponseMeaning {
  /** Statuses such as `403`, and classes such as `4xx`. */
  statuses: readonly string[];
  /** Only for a 2xx. */
  bodies?: readonly BodyKind[];
  /** What it means for a message. */
  ofMessage: SendOutcome;
  /** What it means for a read. */
  ofRead: 'job' | 'notFound' | GetJobFailureReason;
}

const unclear: ResponseMeaning = {
  statuses: ['3xx', '408', '409', '425', '5xx'],
  ofMessage: 'unknown',
  ofRead: 'service',
};

/**
 * All responses, and what they mean. The first that matches counts. docs/explanation/architecture.md ("Sending") has the
 * same table, with what follows.
 */
export const responseMeanings: readonly ResponseMeaning[] = [
  { statuses: ['2xx'], bodies: ['job', 'unread'], ofMessage: 'sent', ofRead: 'job' },
  { statuses: ['2xx'], bodies: ['none'], ofMessage: 'sent', ofRead: 'invalid-body' },
  { statuses: ['2xx'], bodies: ['other'], ofMessage: 'unknown', ofRead: 'invalid-body' },
  { statuses: ['401', '403'], ofMessage: 'credentials', ofRead: 'credentials' },
  { statuses: ['402'], ofMessage: 'payment', ofRead: 'payment' },
  { statuses: ['429'], ofMessage: 'limited', ofRead: 'limited' },
  { statuses: ['404'], ofMessage: 'notFound', ofRead: 'notFound' },
  unclear,
  { statuses: ['4xx'], ofMessage: 'rejected', ofRead: 'rejected' },
];

/** What a response means. 408, 409, 425 and 5xx prove nothing: a gateway answers so to requests that were delivered. */
export function meaningOf(statusCode: number, body: BodyKind = 'unread'): ResponseMeaning {
  const names = [String(statusCode), `${Math.floor(statusCode / 100)}xx`];
  const found = responseMeanings.find(
    ({ statuses, bodies }) => statuses.some((name) => names.includes(name)) && bodies?.includes(body) !== false,
  );
  return found ?? unclear;
}

/** Whether a message may have started a turn of its job. `undefined`: the outcome is not known yet. */
export function mayHaveArrived(outcome: SendOutcome | undefined): boolean {
  return outcome === undefined || outcome === 'sent' || outcome === 'unknown';
}

/** The reason for which the service took no message or read, if it may take it later. */
export function refusalOf(outcome: SendOutcome | GetJobFailureReason): Refusal | undefined {
  return refusals.find((known) => known === outcome);
}
