import { defined, iso } from '../common/index.js';
import type { TakeReply } from '../contract/index.js';
import { lineOf } from './line.js';
import { isDelayed } from './refusals.js';
import { showSend } from './sends.js';
import { freeSlots, slotAtMs, useSlots } from './slots.js';
import { type BudgetState, followUpKey, latestSendOf, put } from './state.js';
import { projectReason } from './waiting.js';

/** Messages that other software sends are booked under the id of a follow-up that cannot exist. */
const idOf = (key: string): string => `take/${key}`;

/** The number of slots that a key has taken, if any. */
export function takenBy(state: BudgetState, key: string): number | undefined {
  return latestSendOf(state, idOf(key))?.sendNumber;
}

/** See `Budget.take`. */
export function take(state: BudgetState, { key, count }: { key: string; count: number }, nowMs: number): TakeReply {
  const workflowId = idOf(key);
  const latest = latestSendOf(state, workflowId);
  if (latest) return { taken: true, count: latest.sendNumber, takenAt: iso(latest.grantedAtMs) };
  const inLine = lineOf(state, nowMs);
  const line = inLine.filter((waiter) => !isDelayed(waiter, nowMs));
  const ofBatch = line.filter(({ lane }) => lane === 'batch').length;
  const freeForBatch = Math.max(0, freeSlots(state, 'batch'));
  const before = line.length - ofBatch + Math.min(ofBatch, freeForBatch);
  const freeAtMs = slotAtMs(state, nowMs, before + count - 1, 'interactive');
  const reason = projectReason(state, inLine, nowMs) ?? (freeAtMs === nowMs ? undefined : 'slot');
  if (reason) {
    // The end of a pause is not known.
    const possibleAt = reason === 'slot' && freeAtMs !== undefined ? iso(freeAtMs) : undefined;
    return defined({ taken: false, count, waitReason: reason, possibleAt } as const);
  }
  useSlots(state, nowMs, count);
  const sent = { runId: '', sendNumber: count, outcome: 'sent', messageTag: '', isClaimed: true } as const;
  const times = { grantedAtMs: nowMs, overAtMs: nowMs, outcomeAtMs: nowMs };
  put(state.latestSends, followUpKey(workflowId), { ...sent, ...times });
  showSend(state, { workflowId, sendNumber: count, grantedAtMs: nowMs, outcomeAtMs: nowMs, outcome: 'taken' });
  return { taken: true, count, takenAt: iso(nowMs) };
}
