import type { SendOutcome } from '../contract/index.js';
import type { LeaveMessage, SettleMessage } from '../contract/protocol.js';
import { recall, remember, rememberJob } from './memory.js';
import { applyOutcome } from './pause.js';
import { findGrant, isUndelivered } from './slots.js';
import type { BudgetState, Grant, Remembered } from './state.js';

/** Records how a send ended. Only the owner's token counts, and only the first time. */
export function settle(state: BudgetState, nowMs: number, message: SettleMessage): void {
  const grant = findGrant(state, message.workflowId, message.sendNumber);
  if (!grant || grant.token !== message.token) return;
  settleGrant(state, nowMs, grant, message);
}

/** Records how a granted send ended, no matter who reports it. */
export function settleGrant(
  state: BudgetState,
  nowMs: number,
  grant: Grant,
  { outcome, agoMs = 0, retryAfterMs, message, statusCode }: Omit<SettleMessage, 'workflowId' | 'sendNumber' | 'token'>,
): void {
  if (grant.settledAtMs !== undefined) return;
  // The message left the sender before now, so the date is not too early, unless a clock was set back: see the margin.
  grant.settledAtMs = Math.max(grant.grantedAtMs, nowMs - agoMs);
  delete grant.token;
  delete grant.isAwaited;
  grant.outcome = outcome;
  if (message !== undefined) grant.message = message;
  if (statusCode !== undefined) grant.statusCode = statusCode;
  if (outcome === 'limited') state.limitedCount += 1;
  const remembered = recall(state, grant.workflowId);
  if (remembered?.sendNumber === grant.sendNumber) {
    remember(state, grant.workflowId, { ...remembered, outcome, touchedAtMs: nowMs });
  }
  // The settle may come after the follow-up's next send was granted, which then owns the turn.
  const isLatest = (remembered?.sendNumber ?? 0) <= grant.sendNumber;
  if (isUndelivered(outcome) && isLatest) endTurn(state, grant);
  applyOutcome(state, nowMs, { grant, outcome, retryAfterMs });
}

/**
 * A follow-up has ended (`finish`) or leaves unsent (`withdraw`). Ends its wait and its turn, and leaves a tombstone.
 * It never frees a slot: a send that was granted may still reach the service.
 */
export function leave(state: BudgetState, nowMs: number, message: LeaveMessage): void {
  const { workflowId, jobId, sendNumber, outcome } = message;
  const grant = findGrant(state, workflowId, sendNumber);
  if (grant && outcome !== undefined) settleGrant(state, nowMs, grant, { outcome });
  const remembered = recall(state, workflowId);
  remember(state, workflowId, {
    sendNumber: 0,
    grantedAtMs: nowMs,
    messageTag: '',
    ...remembered,
    // An id that is never granted again does not need it.
    arrival: 0,
    ...(outcome !== undefined && outcomeToldAtEnd(remembered, sendNumber, outcome)),
    closed: true,
    touchedAtMs: nowMs,
  });
  if (message.lastJobSeen && state.turns.get(jobId)?.workflowId === workflowId) {
    rememberJob(state, jobId, message.lastJobSeen);
  }
  removeWaiter(state, workflowId);
  endTurn(state, { workflowId, jobId });
}

/** Whether a follow-up's end is the first news of how its send ended. */
export function settlesGrant(state: BudgetState, { workflowId, sendNumber, outcome }: LeaveMessage): boolean {
  const grant = findGrant(state, workflowId, sendNumber);
  return outcome !== undefined && grant !== undefined && grant.settledAtMs === undefined;
}

/** What an end with an outcome adds: a lost settle, or a grant that this budget does not know of. */
function outcomeToldAtEnd(
  remembered: Remembered | undefined,
  sendNumber: number,
  outcome: SendOutcome,
): Partial<Remembered> {
  if ((remembered?.sendNumber ?? 0) < sendNumber) return { sendNumber, outcome };
  return remembered?.sendNumber === sendNumber && remembered.outcome === undefined ? { outcome } : {};
}

/** A signal to the workflow failed: it no longer runs. Ends its wait and its turns. What it sent stays known. */
export function gone(state: BudgetState, workflowId: string): void {
  removeWaiter(state, workflowId);
  for (const [jobId, turn] of state.turns) {
    if (turn.workflowId === workflowId) state.turns.delete(jobId);
  }
}

function removeWaiter(state: BudgetState, workflowId: string): void {
  state.waiters = state.waiters.filter((waiter) => waiter.workflowId !== workflowId);
}

function endTurn(state: BudgetState, { workflowId, jobId }: { workflowId: string; jobId: string }): void {
  if (state.turns.get(jobId)?.workflowId === workflowId) state.turns.delete(jobId);
}
