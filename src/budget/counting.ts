import type { SendOutcome } from '../contract/index.js';
import { mayHaveArrived } from '../protocol/index.js';
import { leaveLine, waiterOf } from './line.js';
import { showSend } from './sends.js';
import { freeSlots, useSlots } from './slots.js';
import { type BudgetState, followUpKey, latestSendOf, put, type SendId } from './state.js';
import { giveListedTurn } from './turns.js';

// A budget that may not know all sends of its window, because it is new or was reset, counts them in Temporal's list
// before it grants anything.

/** A follow-up in Temporal's list that may have sent. */
export interface ListedFollowUp {
  workflowId: string;
  isRunning: boolean;
  /** It shows that it waits: it has not sent, or will send again, or its state lags behind its send. */
  isWaiting?: boolean;
  /** When its last send began, at the earliest. Default: it may have begun just now. */
  sentAtMs?: number;
}

/**
 * Drops sends that several runs show, because the follow-up was reset: a send belongs to its newest run that does not
 * wait again. Returns waiting follow-ups, then closed ones in the order of their ends, then running ones.
 *
 * @param found `closedAtMs` is infinite for running ones
 */
export function countOnce(found: readonly (ListedFollowUp & { closedAtMs: number })[]): ListedFollowUp[] {
  const rankOf = ({ isWaiting, closedAtMs }: (typeof found)[number]) => (isWaiting ? 0 : closedAtMs);
  const counted = new Set<string>();
  const newestFirst = [...found].sort((a, b) => rankOf(b) - rankOf(a));
  const once = newestFirst.flatMap(({ closedAtMs: _closedAtMs, sentAtMs, ...followUp }) => {
    const send = `${followUp.workflowId} ${sentAtMs}`;
    const isCounted = sentAtMs === undefined || counted.has(send);
    counted.add(send);
    if (!isCounted) return [{ ...followUp, sentAtMs }];
    return sentAtMs === undefined || followUp.isWaiting ? [followUp] : [];
  });
  return once.reverse();
}

/**
 * Books sends that this budget does not remember, the oldest first, each with an unknown outcome. They are
 * dated now, because the list shows only that they were made by now. Returns the follow-ups that lose their place in
 * line, and are to ask again.
 *
 * @param more.others number of further sends, of which nothing is known
 * @param more.leaseMs time within which a send ends or never starts
 * @param more.drainMs how long bytes of sends in progress may still arrive
 */
export function book(
  state: BudgetState,
  sends: readonly ListedFollowUp[],
  { others = 0, leaseMs = 0, drainMs = 0 }: { others?: number; leaseMs?: number; drainMs?: number },
  nowMs: number,
): string[] {
  const atMs = nowMs + drainMs;
  useSlots(state, atMs, others);
  const moved = sends.flatMap((send) => {
    const { workflowId, isWaiting, sentAtMs = nowMs } = send;
    const usedFromMs = Math.min(nowMs, sentAtMs + leaseMs + state.settings.marginMs) + drainMs;
    if (!isWaiting) return bookListed(state, send, { atMs, usedFromMs, listedAtMs: sentAtMs });
    useSlots(state, usedFromMs);
    showSend(state, { workflowId, sendNumber: 1, grantedAtMs: sentAtMs });
    return [];
  });
  state.isCounting = false;
  return moved;
}

interface BookedTimes {
  /** When the send may have been made, at the latest. */
  atMs: number;
  /** Start of the window in which its slot is in use. */
  usedFromMs: number;
  /** Its time in the list of sends. */
  listedAtMs: number;
}

/** Books a send of a follow-up that may have sent. Returns the follow-up if it loses its place in line. */
function bookListed(state: BudgetState, { workflowId, isRunning }: ListedFollowUp, times: BookedTimes): string[] {
  const latest = latestSendOf(state, workflowId);
  const wasReported = latest?.outcome === 'sent';
  if (latest?.outcome === 'rejected' || (wasReported && !isRunning)) return [];
  // Its lease is over, and the outcome of it or of a later send may never be reported again.
  state.grants = state.grants.filter((grant) => grant.workflowId !== workflowId);
  // A place in line may be older than a reset, and its send may have been made: the follow-up asks again.
  const waiter = waiterOf(state, workflowId);
  const sendNumber = Math.max(latest?.sendNumber ?? 1, waiter?.sendNumber ?? 1);
  if (!wasReported) {
    const send = { workflowId, runId: '', sendNumber, ...(waiter && { messageTag: waiter.messageTag }) };
    bookSend(state, send, 'unknown', times);
  }
  leaveLine(state, workflowId);
  giveListedTurn(state, workflowId, isRunning, times.atMs);
  return waiter ? [workflowId] : [];
}

/**
 * Counts a send that this budget did not grant. It becomes the latest of its follow-up only if no later one is known
 * and if it may have arrived; otherwise an unknown later send may exist.
 */
export function bookSend(
  state: BudgetState,
  send: SendId & { messageTag?: string },
  outcome: SendOutcome,
  { atMs, usedFromMs = atMs, listedAtMs = atMs }: Pick<BookedTimes, 'atMs'> & Partial<BookedTimes>,
): void {
  const { workflowId, runId, sendNumber } = send;
  const latest = latestSendOf(state, workflowId);
  const isUnderWay = state.grants.some((grant) => grant.workflowId === workflowId);
  if (!isUnderWay && mayHaveArrived(outcome) && sendNumber >= (latest?.sendNumber ?? 0)) {
    const isFromList = runId === '' || (latest?.listedAtMs !== undefined && outcome !== 'sent');
    put(state.latestSends, followUpKey(workflowId), {
      ...{ runId, sendNumber, outcome },
      messageTag: send.messageTag ?? latest?.messageTag ?? '',
      ...{ grantedAtMs: atMs, overAtMs: atMs, outcomeAtMs: atMs, isClaimed: true },
      ...(isFromList && { listedAtMs }),
    });
  }
  useSlots(state, usedFromMs);
  // Temporal's list does not show what the service answered.
  showSend(state, {
    workflowId,
    sendNumber,
    grantedAtMs: listedAtMs,
    ...(runId && { outcomeAtMs: listedAtMs, outcome }),
  });
}

/** Books all free slots as used, for an operator who does not trust the list of follow-ups. */
export function assumeFull(state: BudgetState, nowMs: number): void {
  useSlots(state, nowMs, freeSlots(state, 'interactive'));
}
