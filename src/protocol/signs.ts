import { type Refusal, refusals, type SendOutcome } from '../contract/index.js';

/** What the body of a 2xx is: a job, nothing, something else, or unknown because it could not be read. */
export type BodyKind = 'job' | 'none' | 'other' | 'unread';

/**
 * Why a GET returned no job. `rejected`: also if the ids are not safe in a path (then nothing was sent). `service`: 3xx
 * is never followed. `invalid-body`: also if it is too long, or not JSON.
 *
 * Without a status: `network`: no connection, or it was lost. `timeout`: the deadline passed. `no-key`: no API key for
 * the project. `not-served`: this worker does not serve the project. In the last two cases nothing was sent.
 */
export type GetJobFailureReason =
  Refusal | 'rejected' | 'service' | 'network' | 'timeout' | 'invalid-body' | 'no-key' | 'not-served';

/** What a response of the service means. */
export interface Sign {
  /** The response, in the words of the docs. */
  response: string;
  statuses: readonly string[];
  /** What it says of a message. */
  message: SendOutcome;
  /** What it says of a read. */
  read: 'job' | 'notFound' | GetJobFailureReason;
  /** What follows while other messages are accepted. */
  alone: string;
  /** What follows if all messages that were sent since are answered so. */
  all: string;
  /** Only for a 2xx. */
  bodies?: readonly BodyKind[];
}

const WATCH = 'the job is watched';
const SAME = 'the same';
const WAITS = 'the message waits for 30 s, then 3 times as long each time, up to 1 h';
const PAUSES = 'the project pauses for 1 s, then 4 times as long after each refused probe, up to 10 min';
const RECONCILE = 'the follow-up reconciles, and one message is sent at a time';
const OUTAGE = 'from the third in a row, the project pauses for 30 s, then 4 times as long each time, up to 10 min';
const LIMIT =
  'the project pauses for 1/120 of the window at first, then 4 times as long each time, up to 1/6, and spaces its messages';

type SignFields = [
  ...[statuses: string, more: string, message: Sign['message'], read: Sign['read']],
  ...[alone: string, all: string, bodies?: readonly BodyKind[]],
];

/** @param fields first the statuses, with commas between them, and what follows them in the docs */
function sign(...fields: SignFields): Sign {
  const [statuses, more, message, read, alone, all, bodies] = fields;
  const response = `${statuses}${more}`;
  return { response, statuses: statuses.split(', '), message, read, alone, all, ...(bodies && { bodies }) };
}

const UNCLEAR = ', or none after the request began';
const unclear = sign('3xx, 408, 409, 425, 5xx', UNCLEAR, 'unknown', 'service', RECONCILE, OUTAGE);

/** All responses, and what they mean: the only place that says so. The first that matches counts. */
export const signs: readonly Sign[] = [
  sign('2xx', ' with a job, or with a body that was lost', 'sent', 'job', WATCH, SAME, ['job', 'unread']),
  sign('2xx', ' without a body', 'sent', 'invalid-body', WATCH, SAME, ['none']),
  sign('2xx', ' with an error or any other body', 'unknown', 'invalid-body', RECONCILE, OUTAGE, ['other']),
  sign('401, 403', '', 'credentials', 'credentials', WAITS, PAUSES),
  sign('402', '', 'payment', 'payment', WAITS, PAUSES),
  sign('429', '', 'limited', 'limited', `${WAITS}, but only from the third 429 on`, LIMIT),
  sign(
    '404',
    '',
    'notFound',
    'notFound',
    'after a second 404, 30 s to 5 min later, the follow-up fails with `JobNotFound`',
    SAME,
  ),
  unclear,
  sign('4xx', ' otherwise', 'rejected', 'rejected', 'the follow-up fails with `MessageRejected`', SAME),
  sign('', 'none, as the request provably never began', 'notSent', 'network', 'the message keeps its place', SAME),
];

/** What a response means. 408, 409, 425 and 5xx prove nothing: a gateway answers so to requests that were delivered. */
export function signOf(statusCode: number, body: BodyKind = 'unread'): Sign {
  const names = [String(statusCode), `${Math.floor(statusCode / 100)}xx`];
  const found = signs.find(
    ({ statuses, bodies }) => statuses.some((name) => names.includes(name)) && bodies?.includes(body) !== false,
  );
  return found ?? unclear;
}

/** Whether a message may have started a turn of its job. `null`: the outcome is not known yet. */
export function mayHaveArrived(outcome: SendOutcome | undefined): boolean {
  return outcome === undefined || outcome === 'sent' || outcome === 'unknown';
}

/** The reason for which the service took no message or read, if it may take it later. */
export function refusalOf(outcome: SendOutcome | GetJobFailureReason): Refusal | undefined {
  return refusals.find((known) => known === outcome);
}

/** What the service does, and what to check if it does so to all messages of a project. */
export const REFUSALS: Readonly<Record<Refusal, { what: string; fix: string }>> = {
  limited: { what: 'the service answers 429', fix: 'nothing' },
  credentials: {
    what: 'the service answers 401 or 403',
    fix: 'check the API key of the project, and any firewall in front of the service',
  },
  payment: { what: 'the service answers 402', fix: "check the project's account at the service" },
  outage: { what: 'the service does not say whether messages arrive', fix: 'check the service' },
};

/** The same for a message that is refused while others are accepted. */
export const REFUSED_ALONE = {
  what: 'but accepts others',
  fix: 'check the message for text that a firewall blocks, and its job',
} as const;

/** What the service answers, with its HTTP status if that is known. */
export function describeRefusal(reason: Refusal, statusCode?: number): string {
  const isNamed = statusCode !== undefined && reason !== 'outage';
  return isNamed ? `the service answers ${statusCode}` : REFUSALS[reason].what;
}
