import { defined } from '../common/index.js';
import type { Delivered, SendOutcome } from '../contract/index.js';
import {
  type Ask,
  type Asker,
  type AskReply,
  type EarlierSend,
  type Granted,
  mayHaveArrived,
  type Verdict,
} from '../protocol/index.js';
import type { GrantKind } from './pace.js';
import { returnSlot } from './slots.js';
import {
  type BudgetState,
  followUpKey,
  type Grant,
  isSameSend,
  type LatestSend,
  latestSendOf,
  put,
  type SendId,
  type SendRecord,
  type Waiter,
} from './state.js';
import { giveUpTurn, hadLatestTurn, previousEndOf, returnToTurn } from './turns.js';

// What the budget remembers of sends: of each follow-up the latest, and for people a list.

const MIN_LAST_SENDS = 100;
const MAX_LAST_SENDS = 1_000;

/**
 * The reply to an ask for a send that was granted before; `undefined` if there is no such send. The grant, the
 * listed send or the turn then belongs to the run that asks.
 */
export function recall(state: BudgetState, ask: Ask): AskReply | undefined {
  const { workflowId, runId, sendNumber, messageTag, mayHaveSent } = ask;
  const latest = latestSendOf(state, workflowId);
  if (!latest) return mayHaveForgotten(state, ask) ? forgottenSend(ask) : undefined;
  if (latest.ended && latest.runId === runId) return { kind: 'ended' };
  if (latest.messageTag !== '' && latest.messageTag !== messageTag) return { kind: 'otherMessage' };
  // Temporal's list does not show how many sends a follow-up has made. Each run that may have sent gets this reply
  // once.
  if (latest.listedAtMs !== undefined && mayHaveSent && latest.runId !== runId)
    Object.assign(latest, { runId, sendNumber: Math.max(latest.sendNumber, sendNumber) });
  if (sendNumber > latest.sendNumber) return undefined;
  if (latest.runId === runId && latest.sendNumber === sendNumber && latest.outcome === undefined)
    return claimGrant(latest, grantedReply(state, workflowId, latest));
  const verdict = verdictOn(state, ask, latest);
  if (verdict === 'current') returnToTurn(state, workflowId, runId);
  return earlierSend(ask, latest, verdict);
}

/** Whether an earlier run may have sent the message without a record of it here. */
function mayHaveForgotten({ rememberedSinceMs }: BudgetState, { mayHaveSent, startedAtMs }: Ask): boolean {
  return mayHaveSent && startedAtMs <= rememberedSinceMs;
}

function verdictOn(state: BudgetState, ask: Ask, latest: LatestSend): Verdict {
  const { workflowId, messageTag, mayHaveSent } = ask;
  if (!mayHaveArrived(latest.outcome)) return mayHaveForgotten(state, ask) ? 'forgotten' : 'undelivered';
  // A reused id may be for another message.
  const isOwn = latest.messageTag === messageTag || mayHaveSent;
  return isOwn && hadLatestTurn(state, workflowId, latest.grantedAtMs) ? 'current' : 'superseded';
}

function earlierSend(ask: Ask, latest: LatestSend, verdict: Verdict): EarlierSend {
  const { sendNumber, outcome = null, outcomeAtMs = 0, grantedAtMs, overAtMs, listedAtMs } = latest;
  const isOtherMessage = verdict === 'superseded' && latest.messageTag !== ask.messageTag;
  return {
    kind: 'earlierSend',
    runId: ask.runId,
    sendNumber,
    outcome: isOtherMessage ? 'unknown' : outcome,
    ...{ outcomeAtMs, grantedAtMs, overAtMs, verdict, ...defined({ listedAtMs }) },
  };
}

function forgottenSend({ runId, sendNumber }: Ask): EarlierSend {
  const never = { outcome: 'unknown', outcomeAtMs: 0, grantedAtMs: 0, overAtMs: 0 } as const;
  return { kind: 'earlierSend', runId, sendNumber, ...never, verdict: 'forgotten' };
}

/** Notes that a grant was the reply to an ask. */
export function claimGrant(latest: LatestSend | undefined, reply: Granted): Granted {
  if (latest) latest.isClaimed = true;
  return reply;
}

export function grantedReply(
  state: BudgetState,
  workflowId: string,
  { runId, sendNumber, grantedAtMs, overAtMs }: LatestSend,
): Granted {
  const send = { workflowId, runId, sendNumber };
  // An expired grant has no lease left, so the send must not start.
  const { leaseMs } = state.grants.find((grant) => isSameSend(grant, send)) ?? { leaseMs: 1 };
  return { kind: 'granted', runId, sendNumber, grantedAtMs, leaseMs, overAtMs, ...previousEndOf(state, workflowId) };
}

/** Remembers a send that is granted now. */
export function noteGrant(
  state: BudgetState,
  { workflowId, runId, sendNumber, grantedAtMs, overAtMs }: Grant,
  { messageTag, refusals }: Waiter,
  kind: GrantKind,
): LatestSend {
  const send = { runId, sendNumber, grantedAtMs, overAtMs, messageTag, isClaimed: false };
  const latest = { ...send, ...(refusals && { refusals }), ...(kind !== 'free' && { probe: kind }) };
  put(state.latestSends, followUpKey(workflowId), latest);
  showSend(state, { workflowId, sendNumber, grantedAtMs });
  return latest;
}

/** Records the outcome of a send, unless one is recorded. A send that cannot have arrived gives up the job's turn. */
export function recordOutcome(
  state: BudgetState,
  { workflowId, runId, sendNumber, statusCode }: SendId & { statusCode?: number },
  outcome: SendOutcome,
  atMs: number,
): void {
  const shown = state.shownSends.findLast((each) => each.workflowId === workflowId);
  if (shown?.sendNumber === sendNumber && !shown.outcome)
    Object.assign(shown, defined({ outcome, outcomeAtMs: atMs, statusCode }));
  const latest = latestSendOf(state, workflowId);
  if (latest?.runId !== runId || latest.sendNumber !== sendNumber) return;
  if (latest.outcome === undefined) Object.assign(latest, { outcome, outcomeAtMs: atMs });
  if (!mayHaveArrived(latest.outcome)) giveUpTurn(state, workflowId);
}

/** Records that a send was not made, and returns its slot. */
export function recordNotSent(state: BudgetState, send: SendId, atMs: number): void {
  returnSlot(state, send);
  recordOutcome(state, send, 'notSent', atMs);
}

/** Adds a send to the list for people. */
export function showSend(state: BudgetState, send: SendRecord): void {
  const maxShown = Math.min(MAX_LAST_SENDS, Math.max(MIN_LAST_SENDS, state.settings.limit));
  state.shownSends = [...state.shownSends, send].slice(-maxShown);
}

/** Whether another run of the follow-up has delivered the message, as far as this budget remembers. */
export function wasDelivered(state: BudgetState, { workflowId, runId, messageTag }: Asker): Delivered {
  const latest = latestSendOf(state, workflowId);
  const isOther = latest === undefined || latest.runId === runId || !['', messageTag].includes(latest.messageTag);
  if (isOther || (latest.sendNumber === 1 && !mayHaveArrived(latest.outcome))) return 'no';
  return latest.outcome === 'sent' && latest.messageTag === messageTag ? 'yes' : 'unknown';
}
