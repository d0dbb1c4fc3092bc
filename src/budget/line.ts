import type { Lane } from '../contract/index.js';
import type { Ask, Full } from '../protocol/index.js';
import { delayedUntilMs, isDelayed } from './refusals.js';
import { type BudgetState, jobKey, jobLineOf, latestSendOf, type TurnedAway, type Waiter } from './state.js';
import { isExpected } from './turned-away.js';
import { isTurnTaken } from './turns.js';

// The line is in the order in which the follow-ups started. Of one job and lane, one at a time may be granted a send.

export interface LineCapacity {
  /** In total: ten hours of a budget of 100. */
  total: number;
  /** For one job and lane. Further follow-ups are called back when there is a place. */
  forJob: number;
}
export const LINE_CAPACITY: LineCapacity = { total: 1_000, forJob: 10 };
/** The batch lane's share of the places, which leaves some for interactive follow-ups. */
const BATCH_SHARE = 0.9;
/** The share for those whose job is busy, which leaves some for messages that can be sent. */
const BUSY_SHARE = 0.5;
/** While interactive follow-ups wait, every tenth grant goes to the batch lane. */
const BATCH_EVERY = 10;

/**
 * Waiters whose job's turn is free, one for each job and lane, in the order of their grants. A message that the service
 * refuses does not block others from its job.
 */
export function lineOf(state: BudgetState, nowMs: number): Waiter[] {
  const free = state.waiters.filter((waiter) => !waiter.isJobAtWork && !isTurnTaken(state, waiter));
  const firsts = new Map<string, Waiter>();
  for (const waiter of free) {
    const before = firsts.get(jobLineOf(waiter));
    if (!before || (isDelayed(before, nowMs) && !isDelayed(waiter, nowMs))) firsts.set(jobLineOf(waiter), waiter);
  }
  const inLine = new Set(firsts.values());
  const ready = free.filter((waiter) => inLine.has(waiter));
  const first: Lane = state.grantsSinceBatch >= BATCH_EVERY - 1 ? 'batch' : 'interactive';
  return [...ready.filter(({ lane }) => lane === first), ...ready.filter(({ lane }) => lane !== first)];
}

/** All waiters: the line first, then those who wait for their job. */
export function waitersInOrder(state: BudgetState, line: readonly Waiter[]): Waiter[] {
  const inLine = new Set(line);
  return [...line, ...state.waiters.filter((waiter) => !inLine.has(waiter))];
}

/**
 * Puts a follow-up in line. Returns whether it `isNew` there. Also returns `full` if it has no place: it then leaves
 * again unless it is granted a send at once, because waiters for a job or another lane do not block a free slot.
 */
export function enterLine(
  state: BudgetState,
  capacity: LineCapacity,
  ask: Ask,
  nowMs: number,
): { waiter: Waiter; isNew: boolean; full?: Full | undefined } {
  const { workflowId, runId, sendNumber, lane, leaseMs, drainMs, messageTag, startedAtMs, jobIs } = ask;
  const current = { runId, sendNumber, lane, leaseMs, drainMs, messageTag, startedAtMs };
  const known = waiterOf(state, workflowId);
  const job = jobKey(workflowId);
  if (jobIs === 'at-rest') forgetWork(state, job);
  if (known) {
    // A late copy of an ask must not turn it into a watcher, because nobody may receive the reply.
    return { waiter: Object.assign(known, current), isNew: false };
  }
  const hasToWait = isTurnTaken(state, { workflowId, job });
  // Another follow-up reports the end of its turn, so nobody need watch for it.
  const isJobAtWork = jobIs === 'at-work' && !hasToWait;
  const full = reasonForNoPlace(state, capacity, { ...ask, job, isBusy: isJobAtWork || hasToWait }, nowMs);
  const { refusals } = latestSendOf(state, workflowId) ?? {};
  const more = { ...(isJobAtWork && { isJobAtWork }), ...(refusals && { refusals }) };
  const waiter: Waiter = { workflowId, job, ...current, lastReason: 'slot', ...more };
  state.waiters.push(waiter);
  sortLine(state);
  return { waiter, isNew: true, full: full && { kind: 'full', runId, sendNumber, reason: full } };
}

/** Why there is no place in line; `undefined` if there is one. */
function reasonForNoPlace(
  state: BudgetState,
  capacity: LineCapacity,
  { workflowId, job, lane, startedAtMs, isBusy }: Ask & { job: string; isBusy: boolean },
  nowMs: number,
): Full['reason'] | undefined {
  const { waiters, turns, turnedAway } = state;
  // A follow-up that was granted a send or has the turn always gets one: others may wait for that turn.
  if (latestSendOf(state, workflowId) || turns[job]?.owner === workflowId) return undefined;
  const jobLine = jobLineOf({ job, lane });
  // Those who started before and found no place keep theirs.
  const isBefore = (each: TurnedAway) =>
    jobLineOf(each) === jobLine && each.startedAtMs < startedAtMs && isExpected(each, nowMs);
  const ahead = waiters.filter((each) => jobLineOf(each) === jobLine).length + turnedAway.filter(isBefore).length;
  if (ahead >= capacity.forJob) return 'job-busy';
  const share = (lane === 'batch' ? BATCH_SHARE : 1) * (isBusy ? BUSY_SHARE : 1);
  return waiters.length >= share * capacity.total ? 'queue-full' : undefined;
}

export function waiterOf({ waiters }: BudgetState, workflowId: string): Waiter | undefined {
  return waiters.find((each) => each.workflowId === workflowId);
}

/** @param run.runId only if this run asked for the place; `run.upTo`: only for this send or an earlier one */
export function leaveLine(
  state: BudgetState,
  workflowId: string,
  { runId, upTo = Infinity }: { runId?: string; upTo?: number } = {},
): void {
  const leaves = (each: Waiter) =>
    each.workflowId === workflowId && (runId === undefined || each.runId === runId) && each.sendNumber <= upTo;
  state.waiters = state.waiters.filter((each) => !leaves(each));
}

/** Notes that nobody need watch the job: it rests, or a follow-up will report the end of its turn. */
export function forgetWork({ waiters }: BudgetState, job: string): void {
  for (const waiter of waiters) if (waiter.job === job) delete waiter.isJobAtWork;
}

/** Sorts by start, but puts a message that was refused alone behind those that started in the meantime. */
export function sortLine({ waiters }: BudgetState): void {
  const sortMs = (waiter: Waiter) =>
    Math.max(waiter.startedAtMs, waiter.refusals?.isAlone ? delayedUntilMs(waiter) : 0);
  const times = new Map(waiters.map((waiter) => [waiter, sortMs(waiter)]));
  waiters.sort((a, b) => (times.get(a) ?? 0) - (times.get(b) ?? 0));
}
