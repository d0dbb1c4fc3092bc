import { maxInAnyWindow } from '../../src/simulator/ledger.js';
import type { Delivered } from '../../src/contract/index.js';
import type { Arrival } from './ledger-file.js';

/** How a follow-up ended, as its caller was told. `terminated` says nothing about delivery. */
export interface Ending {
  atMs: number;
  kind: 'result' | 'failed' | 'canceled' | 'terminated';
  delivered: Delivered;
  /** Type of the failure. */
  type?: string | undefined;
}

/** One follow-up of a run. */
export interface FollowUpRecord {
  marker: string;
  projectId: string;
  workflowId: string;
  /** Missing if it still runs after all the time it was given. */
  ending?: Ending | undefined;
  /** Where it stands, if it has no ending. */
  standsAt?: string | undefined;
  /** Its sends. Only if it ended `unknown`. */
  sends?: readonly Send[] | undefined;
}

/** A span of time, in epoch milliseconds. */
export interface TimeSpan {
  fromMs: number;
  toMs: number;
}

/** The time in which a send was under way, with all its attempts. */
export interface Send extends TimeSpan {
  /** What its attempts left in the history, for people. */
  left?: string;
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
  /** When every follow-up must have ended, in epoch milliseconds. */
  endedByMs: number;
}

/** What can be wrong with a run. */
export const violationKinds = {
  brake: 'a batch with a canary sent more or fewer messages before it was told to continue',
  doubled: 'a message arrived twice',
  denied: 'a caller was told "no", and the message arrived',
  invented: 'a caller was told "yes", and no message arrived',
  overBudget: 'a rolling window of a project holds more messages than its limit',
  unfinished: 'a follow-up did not end in time',
  unaccounted: 'a delivery is unknown although nothing happened while it was sent',
  stray: 'a message arrived that belongs to no follow-up',
  unclean: 'a worker that was told to end did not end with code 0 in time',
  contradicted: 'a workflow contradicted its own history, or threw',
  broken: 'the Temporal server broke one of its own assertions',
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
 * Compares the service's ledger with what callers were told, by marker. It uses nothing that the product says about
 * itself. `yes` means exactly one arrival, `no` none, and `unknown` none or one.
 *
 * @returns what is wrong; empty if nothing is
 */
export function check(evidence: Evidence): Violation[] {
  const known = new Map(evidence.followUps.map((followUp) => [followUp.marker, followUp]));
  const strays = evidence.arrivals.filter(({ marker }) => !known.has(marker));
  return [
    ...strays.map(({ marker }) => violation('stray', marker, 'nobody asked for it')),
    ...evidence.followUps.flatMap((followUp) => judge(followUp, evidence)),
    ...judgeBudgets(evidence),
  ];
}

function judge(followUp: FollowUpRecord, { arrivals, faults, endedByMs }: Evidence): Violation[] {
  const { marker, ending, sends = [] } = followUp;
  const mine = arrivals.filter((arrival) => arrival.marker === marker);
  const arrived = mine.filter(({ status }) => !REFUSED.includes(status)).length;
  const accepted = mine.filter((arrival) => arrival.accepted).length;
  const found: Violation[] = [];
  if (arrived > 1) found.push(violation('doubled', marker, `it arrived ${arrived} times`));
  if (ending === undefined) {
    found.push(
      violation('unfinished', marker, `${followUp.workflowId} still runs: ${followUp.standsAt ?? 'nobody looked'}`),
    );
    return found;
  }
  if (ending.atMs > endedByMs) {
    found.push(violation('unfinished', marker, `it ended ${ending.atMs - endedByMs} ms too late`));
  }
  const told = `${ending.kind} ${ending.type ?? ''}`.trim();
  if (ending.delivered === 'no' && accepted > 0) found.push(violation('denied', marker, told));
  if (ending.delivered === 'yes' && accepted === 0) found.push(violation('invented', marker, told));
  const isOpen = ending.delivered === 'unknown' && ending.kind !== 'terminated';
  if (isOpen && !sends.some((send) => faults.some((fault) => overlap(send, fault)))) {
    found.push(violation('unaccounted', marker, [told, ...sends.map(({ left }) => left)].join('; ')));
  }
  return found;
}

function judgeBudgets({ arrivals, limit, windowMs }: Evidence): Violation[] {
  const projects = new Set(arrivals.map(({ projectId }) => projectId));
  return [...projects].flatMap((projectId) => {
    const instants = arrivals
      .filter((arrival) => arrival.projectId === projectId)
      .map(({ receivedAtMs }) => receivedAtMs);
    const most = maxInAnyWindow(instants, windowMs);
    return most > limit ? [violation('overBudget', projectId, `${most} in ${windowMs} ms, limit ${limit}`)] : [];
  });
}

function overlap(a: TimeSpan, b: TimeSpan): boolean {
  return a.fromMs <= b.toMs && b.fromMs <= a.toMs;
}

function violation(kind: Violation['kind'], subject: string, detail: string): Violation {
  return { kind, subject, detail };
}
