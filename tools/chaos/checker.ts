import { isDeepStrictEqual } from 'node:util';
import type { Delivered, Webhook } from '../../src/contract/index.js';
import { type LedgerEntry, maxInAnyWindow } from '../../src/simulator/ledger.js';
import type { ReceivedWebhook } from '../../test/support/webhook-receiver.js';

/** A message in the service's ledger. Its prompt is the marker of its follow-up. */
export type Arrival = Omit<LedgerEntry, 'countedAtMs'>;

/** A span of time, in epoch milliseconds. */
export interface TimeSpan {
  fromMs: number;
  toMs: number;
}

/** One follow-up of a run. */
export interface FollowUpRecord {
  marker: string;
  workflowId: string;
  /** How it ended, as its caller learned. Missing if it still runs after all the time it was given. */
  ending?: { how: string; delivered: Delivered };
  /** Where it stands, if it has no ending. */
  standsAt?: string;
  /** When its sends were under way, with all their attempts. Only if its delivery is unknown and needs a reason. */
  sends?: readonly TimeSpan[];
}

/** Everything that a run left behind. */
export interface Evidence {
  followUps: readonly FollowUpRecord[];
  arrivals: readonly Arrival[];
  /** The limit of every project. */
  limit: number;
  windowMs: number;
  /** When something happened that may leave a delivery unknown, such as a kill, a stop or a cut. */
  faults: readonly TimeSpan[];
  /** How workers ended that got SIGTERM. @default none was */
  departures?: readonly Departure[];
}

/** An end that a webhook must report. */
export interface End {
  workflowId: string;
  /** The status of a result, a failure type, or `batch.ended`. */
  how: string;
  /** Missing for a batch. */
  delivered?: Delivered;
}

/** How a worker ended that got SIGTERM. */
interface Departure {
  worker: string;
  /** `null`: a signal ended it. `late`: it did not end in time. */
  exitCode: number | null | 'late';
  log: string;
}

/** What can be wrong with a run. */
export const violationKinds = {
  doubled: 'a message arrived twice',
  denied: 'a caller got the answer "no", and the message arrived',
  invented: 'a caller got the answer "yes", and no message arrived',
  overBudget: 'a rolling window of a project holds more messages than its limit',
  unfinished: 'a follow-up or a batch did not end in time',
  unaccounted: 'a delivery is unknown although nothing happened while it was sent',
  stray: 'a message arrived that belongs to no follow-up',
  unclean: 'a worker did not end with code 0 in time after SIGTERM',
  unreported: 'no webhook reported an end',
  renamed: 'webhooks reported one end under several ids',
  contradicted: 'a workflow contradicted its own history, or threw',
} as const;

/** One thing that is wrong. */
export interface Violation {
  kind: keyof typeof violationKinds;
  /** Marker, project or workflow. */
  subject: string;
  detail: string;
}

/** Statuses that prove that a message was refused. After them the product may send it again. */
const REFUSED = [401, 403, 429];

/**
 * Compares the service's ledger with what callers learned, by marker. It uses nothing that the product says about
 * itself. `yes` means exactly one arrival, `no` none, and `unknown` none or one.
 *
 * @returns what is wrong; empty if nothing is
 */
export function check({ followUps, arrivals, limit, windowMs, faults, departures = [] }: Evidence): Violation[] {
  const found: Violation[] = [];
  const find = (kind: Violation['kind'], subject: string, detail: string) => void found.push({ kind, subject, detail });
  const known = new Set<string | null>(followUps.map(({ marker }) => marker));
  for (const { prompt } of arrivals) if (!known.has(prompt)) find('stray', String(prompt), 'nobody asked for it');
  for (const { marker, workflowId, ending, standsAt = 'nobody looked', sends } of followUps) {
    const mine = arrivals.filter(({ prompt }) => prompt === marker);
    const arrived = mine.filter(({ status }) => !REFUSED.includes(status)).length;
    const isAccepted = mine.some(({ accepted }) => accepted);
    const wasStruck = sends?.some((send) => faults.some((fault) => overlap(send, fault)));
    if (arrived > 1) find('doubled', marker, `it arrived ${arrived} times`);
    if (!ending) find('unfinished', marker, `${workflowId} still runs: ${standsAt}`);
    if (ending?.delivered === 'no' && isAccepted) find('denied', marker, ending.how);
    if (ending?.delivered === 'yes' && !isAccepted) find('invented', marker, ending.how);
    if (wasStruck === false) find('unaccounted', marker, `${ending?.how}; its sends: ${JSON.stringify(sends)}`);
  }
  for (const project of new Set(arrivals.map(({ projectId }) => projectId))) {
    const instants = arrivals.filter(({ projectId }) => projectId === project).map(({ receivedAtMs }) => receivedAtMs);
    const most = maxInAnyWindow(instants, windowMs);
    if (most > limit) find('overBudget', project, `${most} in ${windowMs} ms, limit ${limit}`);
  }
  for (const { worker, exitCode, log } of departures) {
    if (exitCode !== 0) find('unclean', worker, `${exitCode}: ${log.slice(-500)}`);
  }
  return found;
}

/** Compares the webhooks that a receiver has accepted with what callers learned, and the ids of all attempts. */
export function checkWebhooks(ends: readonly End[], received: readonly ReceivedWebhook[]): Violation[] {
  const found: Violation[] = [];
  const accepted = received.filter(({ response }) => response !== 'cut' && response < 300);
  for (const end of ends) {
    const isReported = accepted.some(({ body }) => isAbout(body, end) && isDeepStrictEqual(endIn(body), end));
    if (!isReported) found.push({ kind: 'unreported', subject: end.workflowId, detail: JSON.stringify(end) });
  }
  for (const { id, body } of received) {
    const isSame = (other: Webhook) => isAbout(other, body.data) && isDeepStrictEqual(other.data, body.data);
    const first = received.find((other) => isSame(other.body));
    if (first?.id === id) continue;
    found.push({ kind: 'renamed', subject: body.data.workflowId, detail: `${first?.id} and ${id}` });
  }
  return found;
}

function isAbout({ data }: Webhook, { workflowId }: { workflowId: string }): boolean {
  return data.workflowId === workflowId;
}

/** What a webhook reports, in the words of a caller. */
function endIn({ type, data }: Webhook): End {
  const { workflowId } = data;
  if (!('delivered' in data)) return { workflowId, how: type };
  return { workflowId, how: data.status ?? data.failure ?? '', delivered: data.delivered };
}

function overlap(a: TimeSpan, b: TimeSpan): boolean {
  return a.fromMs <= b.toMs && b.fromMs <= a.toMs;
}
