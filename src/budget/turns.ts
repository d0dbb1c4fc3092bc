import { type EndReport, type JobFingerprint, mayHaveArrived } from '../protocol/index.js';
import { type BudgetState, followUpKey, jobKey, latestSendOf, put, type Turn, type Waiter } from './state.js';

// The turn of a job is the right to send to it. It lasts from a grant until the agent has ended the message's turn.

/** How long after the last byte the job may still show the previous turn: the default of `settleTime`. */
const SETTLE_MS = 120_000;
/** An ended follow-up keeps its turn for lease, drain and settle time. Only a signal sent by hand can ask for more. */
const LONGEST_KEPT_TURN_MS = 14_400_000;
/** Interval at which follow-ups that block others' jobs are checked: one may have been terminated. */
const CHECK_OWNERS_MS = 600_000;

/** Whether another follow-up has the turn of its job. */
export function isTurnTaken({ turns }: BudgetState, { workflowId, job }: Pick<Waiter, 'workflowId' | 'job'>): boolean {
  return (turns[job]?.owner ?? workflowId) !== workflowId;
}

/** Ends turns whose end was not seen, when their time is over. */
export function expireTurns(state: BudgetState, nowMs: number): void {
  for (const turn of Object.values(state.turns)) {
    if (turn.untilMs === undefined || turn.untilMs > nowMs) continue;
    delete turn.owner;
    delete turn.untilMs;
  }
}

export function giveTurn({ turns }: BudgetState, workflowId: string): void {
  const job = jobKey(workflowId);
  const { previousEnd } = turns[job] ?? {};
  put(turns, job, { owner: workflowId, latest: followUpKey(workflowId), ...(previousEnd && { previousEnd }) });
}

/** The job at the end of its previous turn, as a field of a grant. */
export function previousEndOf({ turns }: BudgetState, workflowId: string): { previousEnd?: JobFingerprint } {
  const { previousEnd } = turns[jobKey(workflowId)] ?? {};
  return previousEnd ? { previousEnd } : {};
}

/** Whether the follow-up was the last to have its job's turn, as far as this budget remembers since `sinceMs`. */
export function hadLatestTurn(state: BudgetState, workflowId: string, sinceMs: number): boolean {
  // Others may since have had the turn, in a time that this budget has yet to count or does not remember.
  const remembers = !state.isCounting && sinceMs >= state.rememberedSinceMs;
  return remembers && state.turns[jobKey(workflowId)]?.latest === followUpKey(workflowId);
}

/** Gives the turn back to a run that watches the job again: no other may send meanwhile. */
export function returnToTurn({ turns }: BudgetState, workflowId: string, runId: string): void {
  const turn = turns[jobKey(workflowId)];
  if (!turn) return;
  Object.assign(turn, { owner: workflowId, runId });
  delete turn.untilMs;
}

/** Takes the turn from a follow-up whose send has not arrived. */
export function giveUpTurn({ turns }: BudgetState, workflowId: string): void {
  const turn = turns[jobKey(workflowId)];
  if (turn?.owner === workflowId) delete turn.owner;
}

/** Gives the turn to a follow-up whose send this budget did not grant, unless a later one has or had it. */
export function giveForgottenTurn(state: BudgetState, workflowId: string, sentAtMs: number): void {
  const turn = state.turns[jobKey(workflowId)];
  const isOld = turn !== undefined && (state.latestSends[turn.latest]?.grantedAtMs ?? 0) > sentAtMs;
  if (turn?.owner === undefined && !isOld) giveTurn(state, workflowId);
}

/** Gives the turn to a follow-up that Temporal lists, unless it has ended and another has the turn. */
export function giveListedTurn(state: BudgetState, workflowId: string, isRunning: boolean, sentByMs: number): void {
  const key = followUpKey(workflowId);
  const turn: Turn = { latest: key, ...state.turns[jobKey(workflowId)] };
  // The list does not show which of two follow-ups sent to a job last, because either may have been reset.
  if (turn.latest !== key) turn.latest = '';
  const isOthers = turn.owner !== undefined && turn.owner !== workflowId && turn.untilMs === undefined;
  if (isRunning || !isOthers) {
    turn.owner = workflowId;
    delete turn.runId;
    delete turn.untilMs;
    if (!isRunning) turn.untilMs = sentByMs + SETTLE_MS;
  }
  put(state.turns, jobKey(workflowId), turn);
}

/**
 * Ends the turn of a follow-up that has ended, or keeps it while its message may still arrive. Returns whether the end of
 * the turn was seen.
 */
export function endTurn(
  state: BudgetState,
  { workflowId, runId, turnUntilMs, jobAtEnd }: EndReport,
  nowMs: number,
): boolean {
  const turn = state.turns[jobKey(workflowId)];
  if (turn?.owner !== workflowId || (turn.runId ?? runId) !== runId) return false;
  if (jobAtEnd) turn.previousEnd = jobAtEnd;
  const latest = latestSendOf(state, workflowId);
  // Another run's send may still arrive.
  const isOpen = latest && latest.runId !== runId && mayHaveArrived(latest.outcome);
  const untilMs = turnUntilMs ?? (isOpen && !jobAtEnd ? latest.overAtMs + SETTLE_MS : undefined);
  if (untilMs === undefined) delete turn.owner;
  else turn.untilMs = Math.min(untilMs, nowMs + LONGEST_KEPT_TURN_MS);
  return jobAtEnd !== undefined;
}

/** Keeps the turn of a follow-up that has closed without a report until its message can no longer arrive. */
export function closeTurn(state: BudgetState, workflowId: string, nowMs: number): void {
  const turn = state.turns[jobKey(workflowId)];
  const { overAtMs = 0 } = latestSendOf(state, workflowId) ?? {};
  if (turn?.owner === workflowId) turn.untilMs ??= Math.max(nowMs, overAtMs) + SETTLE_MS;
}

/** Follow-ups whose turn blocks others and has no known end. */
export function blockingOwners(state: BudgetState): string[] {
  const { waiters, turns } = state;
  const owners = waiters.flatMap((waiter) => {
    const { owner, untilMs } = turns[waiter.job] ?? {};
    return owner !== undefined && untilMs === undefined && isTurnTaken(state, waiter) ? [owner] : [];
  });
  return [...new Set(owners)];
}

/** Returns those of {@link blockingOwners} that are to be checked now. */
export function ownersToCheck(state: BudgetState, nowMs: number): string[] {
  const owners = blockingOwners(state);
  if (owners.length === 0 || nowMs < state.checkOwnersAtMs) return [];
  state.checkOwnersAtMs = nowMs + CHECK_OWNERS_MS;
  return owners;
}
