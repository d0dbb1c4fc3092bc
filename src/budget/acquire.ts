import { defined } from '../contract/defined.js';
import type { SendOutcome, WaitReason } from '../contract/index.js';
import type { AcquireAnswer, AcquireRequest } from '../contract/protocol.js';
import { hash64 } from '../contract/text.js';
import {
  ASK_DEADLINE_AFTER_LEASE_MS,
  GRANT_AHEAD_MS,
  INTERACTIVE_PLACES,
  MAX_TURNS,
  MAX_UNSETTLED,
  MAX_WAITERS,
  MIN_WAIT_MS,
  OVERSLEEP_MS,
  RECHECK_BEHIND_MS,
  RECHECK_MS,
  SLOW_SEND_MS,
  SPREAD_MS,
  TURNS_BEFORE_CHECKS,
  UNSETTLED_WAIT_MS,
} from './limits.js';
import { countOvertaken, eligibleLine, freeSlots, hasLapsed, isJobBusy, noteAnswer, startableSends } from './line.js';
import { recall, recallJob, remember, trimOldest } from './memory.js';
import { assumeFullUnasked } from './operator.js';
import { expectSlot, expireProbe, noteKeyRead, notePaced, pacedMs, pausedUntil, pauseTold } from './pause.js';
import { leave, settleGrant } from './settle.js';
import {
  certainSlotMs,
  findGrant,
  forecastSlots,
  isUndelivered,
  lastTenTookMs,
  occupiedSlotEnds,
  pruneGrants,
  sendEstimateMs,
  unsettled,
} from './slots.js';
import type { BudgetState, Grant, Remembered, Waiter } from './state.js';

/**
 * Answers one ask, at once. The order of the checks is part of the protocol: what was sent stays known even after the
 * follow-up has ended, and a stale ask changes nothing.
 *
 * @param checkOwner asks the owner of a job's turn whether it still runs, if the ask waits for that turn or there are
 *   many turns
 */
export function acquire(
  state: BudgetState,
  nowMs: number,
  request: AcquireRequest,
  checkOwner: (jobId: string) => void,
): AcquireAnswer {
  begin(state, nowMs, request);
  const known = lookUp(state, nowMs, request);
  if (known) return known;
  if (request.withdraw) {
    leave(state, nowMs, request);
    return { kind: 'closed' };
  }

  const waiter = takePlace(state, nowMs, request);
  if (!waiter) return waitOutside(state, nowMs, request);
  if (isJobBusy(state, waiter)) checkOwner(waiter.jobId);
  const answer = grantOrWait(state, nowMs, waiter, request);
  if (answer.kind === 'granted') checkOldTurn(state, checkOwner);
  return answer;
}

/** What an ask changes whatever the answer is. */
function begin(state: BudgetState, nowMs: number, request: AcquireRequest): void {
  if (request.ceiling) state.ceiling = request.ceiling;
  if (!request.hold && !request.withdraw) noteKeyRead(state, nowMs, { isRefused: false });
  expireProbe(state, nowMs);
  if (request.ledgerSinceMs !== undefined && request.ledgerSinceMs < state.ledgerSinceMs) {
    assumeFullUnasked(state, nowMs, request.leaseMs + request.drainMs);
  }
}

/** The answers that need no place in the queue. */
function lookUp(state: BudgetState, nowMs: number, request: AcquireRequest): AcquireAnswer | undefined {
  const remembered = recall(state, request.workflowId);
  if (remembered && remembered.sendNumber > 0 && request.sendNumber <= remembered.sendNumber) {
    // A later number was granted. So this send is over without delivery, or it was repeated although its outcome was
    // unknown. In both cases its rejection came too late to end the follow-up.
    if (request.sendNumber < remembered.sendNumber) {
      const heard = findGrant(state, request.workflowId, request.sendNumber)?.outcome;
      const isDoubtful = request.sendNumber === remembered.doubtfulNumber;
      const outcome = heard ?? (isDoubtful ? 'unknown' : 'notSent');
      if (outcome === 'rejected') return { kind: 'done', outcome: 'notSent' };
      if (isUndelivered(outcome)) return { kind: 'done', outcome };
      // Both sends were for one message. After one that may have been delivered, no other message is let through.
      const { messageTag } = remembered;
      return { kind: 'done', outcome, ...(messageTag !== '' && { messageTag }) };
    }
    takeBack(state, nowMs, request);
    return answerKnown(state, nowMs, request, remembered);
  }
  const waiter = state.waiters.find((each) => each.workflowId === request.workflowId);
  const isDoubtful = mayBeForgotten(state, request, waiter ?? remembered);
  if (remembered?.closed && !isDoubtful) return { kind: 'closed' };
  const ageMs = nowMs - request.attemptScheduledAtMs;
  if (ageMs > request.leaseMs + ASK_DEADLINE_AFTER_LEASE_MS) return { kind: 'stale' };
  if (waiter && request.attemptScheduledAtMs < waiter.newestAskAtMs) return { kind: 'stale' };
  return isDoubtful ? rememberDoubt(state, nowMs, request) : undefined;
}

/**
 * Whether this send may have been granted although the budget does not know of it. That is so if an attempt has noted
 * its grant. It is also so if the budget knows nothing of a follow-up that is older than the budget's memory, unless
 * the ask says that it has never been granted anything.
 */
function mayBeForgotten(
  state: BudgetState,
  request: AcquireRequest,
  known: { sendNumber: number; outcome?: SendOutcome; doubtfulNumber?: number } | undefined,
): boolean {
  // A later send waits already, for a run that this one replaces. Only that run has heard how this send ended.
  if (request.grantedBefore === 'surely' || request.sendNumber < (known?.sendNumber ?? 0)) return true;
  const isPerhaps = request.grantedBefore === 'perhaps';
  // A doubt may come from a late ask, and then the next send is in doubt, too. A second one in a row does not.
  const isDoubt = known?.outcome === 'unknown' && !known.doubtfulNumber;
  if (known !== undefined && known.sendNumber > 0 && !(isPerhaps && isDoubt)) return false;
  const { firstRunStartedAtMs } = request;
  if (firstRunStartedAtMs <= (state.lostBeforeMs ?? -Infinity)) return true;
  return isPerhaps && firstRunStartedAtMs <= (state.memorySinceMs ?? -Infinity);
}

/**
 * A send that may have been granted and forgotten counts as one whose outcome is unknown. It is remembered as such, so
 * that a follow-up that repeats unknown sends continues with its next number.
 */
function rememberDoubt(state: BudgetState, nowMs: number, request: AcquireRequest): AcquireAnswer {
  state.waiters = state.waiters.filter(({ workflowId }) => workflowId !== request.workflowId);
  remember(state, request.workflowId, {
    sendNumber: request.sendNumber,
    grantedAtMs: nowMs,
    outcome: 'unknown',
    closed: recall(state, request.workflowId)?.closed ?? false,
    arrival: ++state.arrivalCount,
    touchedAtMs: nowMs,
    messageTag: request.messageTag,
    ...doubtBefore(recall(state, request.workflowId)),
  });
  return { kind: 'alreadyGranted', leaseLeftMs: 0, drainLeftMs: 0 };
}

/**
 * Takes back a grant to an earlier ask of the same follow-up if this ask says that no earlier one sends. An ask that
 * was overtaken takes nothing back: its number is lower.
 *
 * A grant to an ask that did not say this itself is never taken back. Such an ask may come from an attempt after a
 * reset of the activity. Then the follow-up may have its word from the attempt before the reset, which the server takes
 * for the same one, and which knows nothing of the grant.
 */
function takeBack(state: BudgetState, nowMs: number, request: AcquireRequest): void {
  const grant = findGrant(state, request.workflowId, request.sendNumber);
  if (!grant || !request.provenNotSent || grant.firstRunStartedAtMs !== request.firstRunStartedAtMs) return;
  if ((grant.askNumber ?? Infinity) >= (request.askNumber ?? 0)) return;
  settleGrant(state, nowMs, grant, { outcome: 'notSent' });
}

function answerKnown(
  state: BudgetState,
  nowMs: number,
  request: AcquireRequest,
  remembered: Pick<Remembered, 'grantedAtMs' | 'outcome' | 'messageTag'>,
): AcquireAnswer {
  const grant = findGrant(state, request.workflowId, request.sendNumber);
  const outcome = grant?.outcome ?? remembered.outcome;
  const { grantedAtMs, messageTag } = remembered;
  const lastJobSeen = recallJob(state, request.jobId);
  const known = { grantedAtMs, ...(messageTag !== '' && { messageTag }), ...defined({ lastJobSeen }) };
  if (outcome !== undefined) {
    const { settledAtMs, message, statusCode } = grant ?? {};
    return { kind: 'done', outcome, ...known, ...defined({ settledAtMs, message, statusCode }) };
  }
  if (grant?.token === request.token) return granted(state, nowMs, grant);
  const leaseEndMs = grant ? grant.grantedAtMs + grant.leaseMs : nowMs;
  const drainEndMs = grant ? leaseEndMs + grant.drainMs : nowMs;
  const leaseLeftMs = Math.max(0, leaseEndMs - nowMs);
  return {
    kind: 'alreadyGranted',
    leaseLeftMs,
    drainLeftMs: Math.max(0, drainEndMs - nowMs - leaseLeftMs),
    ...known,
  };
}

/**
 * The queue has no place for this ask. The ask is repeated before half of the queue can have been sent, so that a fast
 * budget does not run dry while others wait outside.
 */
function waitOutside(state: BudgetState, nowMs: number, { workflowId }: AcquireRequest): AcquireAnswer {
  const halfSentAtMs = forecastSlots(state, nowMs)(state.waiters.length / 2) ?? Infinity;
  const longestMs = Math.min(Math.max(halfSentAtMs - nowMs, RECHECK_MS), RECHECK_BEHIND_MS);
  // Asks that are turned away together come back at different times.
  const share = 0.75 + 0.25 * shareOf(workflowId);
  const dueAtMs = nowMs + Math.round(longestMs * share);
  return wait(state, nowMs, { reason: 'queue-full', dueAtMs, position: MAX_WAITERS + 1 });
}

/** A number from 0 to 1 derived from an id. */
function shareOf(workflowId: string): number {
  return (hash64(workflowId).charCodeAt(0) % 32) / 31;
}

/** The waiter of this ask, created or updated; `undefined` if the queue has no place for its lane. */
function takePlace(state: BudgetState, nowMs: number, request: AcquireRequest): Waiter | undefined {
  const { workflowId, sendNumber, lane, hold, attemptScheduledAtMs } = request;
  let waiter = state.waiters.find((each) => each.workflowId === workflowId);
  if (!waiter) {
    const places = MAX_WAITERS - (lane === 'batch' ? INTERACTIVE_PLACES : 0);
    if (state.waiters.length >= places) return undefined;
    waiter = newWaiter(state, nowMs, request);
    const { arrival } = waiter;
    const index = state.waiters.findLastIndex((each) => each.arrival < arrival);
    state.waiters.splice(index + 1, 0, waiter);
  }
  noteAnswer(state, nowMs, waiter);
  delete waiter.invitedAtMs;
  delete waiter.quietUntilMs;
  const newestAskAtMs = attemptScheduledAtMs;
  return Object.assign(waiter, { sendNumber, lane, hold, newestAskAtMs, heardAtMs: nowMs, dueAtMs: nowMs });
}

function newWaiter(state: BudgetState, nowMs: number, request: AcquireRequest): Waiter {
  return {
    workflowId: request.workflowId,
    jobId: request.jobId,
    lane: request.lane,
    sendNumber: request.sendNumber,
    arrival: recall(state, request.workflowId)?.arrival ?? ++state.arrivalCount,
    hold: request.hold,
    newestAskAtMs: request.attemptScheduledAtMs,
    heardAtMs: nowMs,
    dueAtMs: nowMs,
  };
}

function grantOrWait(state: BudgetState, nowMs: number, waiter: Waiter, request: AcquireRequest): AcquireAnswer {
  const recheckAtMs = nowMs + RECHECK_BEHIND_MS;
  if (waiter.hold) return wait(state, nowMs, { reason: 'job-busy', waiter, dueAtMs: recheckAtMs, position: 0 });

  const line = eligibleLine(state, nowMs);
  const place = line.indexOf(waiter);
  const paused = pausedUntil(state, nowMs);
  if (paused) {
    // Only the first learns the end of the pause; otherwise all would ask at the same time.
    const dueAtMs =
      place === 0 ? Math.min(paused.endMs, nowMs + RECHECK_MS) : recheckAtMs + SPREAD_MS * Math.max(0, place);
    const position = Math.max(0, place) + 1;
    return { ...wait(state, nowMs, { reason: paused.reason, waiter, dueAtMs, position }), ...pauseTold(paused) };
  }
  if (place < 0) {
    const position = state.waiters.filter(
      (each) => each.jobId === waiter.jobId && each.arrival < waiter.arrival,
    ).length;
    const dueAtMs = position === 0 ? nowMs + turnRecheckMs(state, nowMs, waiter) : recheckAtMs + SPREAD_MS * position;
    return wait(state, nowMs, { reason: 'job-busy', waiter, dueAtMs, position });
  }
  const ahead = line.slice(0, place).filter((each) => !hasLapsed(state, each, nowMs)).length;
  const ends = occupiedSlotEnds(state, nowMs);
  const free = freeSlots(state, ends.length, { waiter, line });
  const freeAtMs = certainSlotMs(state, nowMs, { free, ends }, ahead);
  const slotAtMs = Math.max(freeAtMs ?? Infinity, pacedMs(state, ahead));
  if (slotAtMs <= nowMs + GRANT_AHEAD_MS) {
    const startable = startableSends(state, nowMs);
    if (startable > ahead) {
      countOvertaken(state, nowMs, { granted: waiter, line });
      return grant(state, nowMs, { waiter, request, slotAtMs });
    }
    return waitForSends(state, nowMs, waiter, { ahead, startable });
  }
  const expectedAtMs = expectSlot(state, nowMs)(ahead, free);
  return wait(state, nowMs, {
    reason: 'slot',
    waiter,
    dueAtMs: expectedAtMs === undefined ? recheckAtMs + SPREAD_MS * ahead : expectedAtMs + OVERSLEEP_MS,
    position: ahead + 1,
    expectedAtMs,
  });
}

/** The answer to an ask that has a slot, while as many sends are in flight as may be. */
function waitForSends(
  state: BudgetState,
  nowMs: number,
  waiter: Waiter,
  { ahead, startable }: { ahead: number; startable: number },
): AcquireAnswer {
  const place = ahead - startable;
  const starts = unsettled(state, nowMs).map(({ grantedAtMs }) => grantedAtMs);
  const startsAtMs = Math.max(nowMs, starts.sort((a, b) => a - b)[Math.min(place, starts.length - 1)] ?? nowMs);
  // Waiters further back wait longer: in the time of one send, the sends in flight make room for ten. On a busy machine,
  // ten take longer than that.
  const sendMs = Math.max(UNSETTLED_WAIT_MS, sendEstimateMs(state));
  const tensAhead = Math.floor(place / MAX_UNSETTLED);
  const staysInPlace = tensAhead === 0 && sendMs <= SLOW_SEND_MS;
  const forMs = staysInPlace
    ? UNSETTLED_WAIT_MS
    : Math.round(sendMs + tensAhead * Math.max(sendMs, lastTenTookMs(state, nowMs)));
  const dueAtMs = startsAtMs + forMs;
  const answer = wait(state, nowMs, { reason: 'slot', waiter, dueAtMs, position: ahead + 1, expectedAtMs: dueAtMs });
  if (!staysInPlace) return answer;
  // It stays in its activity, and counts as invited from then on.
  if (startsAtMs > nowMs) waiter.invitedAtMs = startsAtMs;
  return { ...answer, askInPlaceAfterMs: startsAtMs - nowMs };
}

/**
 * The first waiter for a job's turn asks again after as long as the turn has lasted. So a turn whose owner is gone is
 * noticed, and a long turn costs few asks.
 */
function turnRecheckMs(state: BudgetState, nowMs: number, { jobId }: Waiter): number {
  const owner = state.turns.get(jobId)?.workflowId;
  const sinceMs = (owner === undefined ? undefined : recall(state, owner)?.grantedAtMs) ?? nowMs;
  return Math.min(Math.max(nowMs - sinceMs, RECHECK_MS), RECHECK_BEHIND_MS);
}

/** Terminated follow-ups never end their turns. Checks the owner that was never checked, or was checked longest ago. */
function checkOldTurn({ turns }: BudgetState, checkOwner: (jobId: string) => void): void {
  if (turns.size <= TURNS_BEFORE_CHECKS) return;
  let [oldest] = turns;
  for (const each of turns) {
    if (oldest && (each[1].checkedAtMs ?? -Infinity) < (oldest[1].checkedAtMs ?? -Infinity)) oldest = each;
  }
  if (oldest) checkOwner(oldest[0]);
}

/**
 * Takes slot and turn in one step. The slot counts from `slotAtMs`, which is now or soon, and the send waits for it.
 */
function grant(
  state: BudgetState,
  nowMs: number,
  { waiter, request, slotAtMs }: { waiter: Waiter; request: AcquireRequest; slotAtMs: number },
): AcquireAnswer {
  const { workflowId, jobId, sendNumber, token, messageTag, firstRunStartedAtMs, leaseMs, drainMs } = request;
  state.waiters = state.waiters.filter((each) => each !== waiter);
  const grantedAtMs = slotAtMs;
  const taken: Grant = {
    ...{ workflowId, jobId, sendNumber, token, messageTag, firstRunStartedAtMs, leaseMs, drainMs, grantedAtMs },
    ...(request.provenNotSent && defined({ askNumber: request.askNumber })),
  };
  state.grants.push(taken);
  state.grantCount += 1;
  notePaced(state, slotAtMs);
  state.turns.delete(jobId);
  state.turns.set(jobId, { workflowId });
  trimOldest(state.turns, MAX_TURNS);
  if (state.pause) state.pause.probe = { workflowId, sendNumber };
  remember(state, workflowId, {
    sendNumber,
    grantedAtMs: slotAtMs,
    closed: false,
    arrival: waiter.arrival,
    touchedAtMs: nowMs,
    messageTag,
    ...doubtBefore(recall(state, workflowId)),
  });
  pruneGrants(state, nowMs);
  return granted(state, nowMs, taken);
}

/** The number of the last send before the next one that may have been delivered. */
function doubtBefore(before: Remembered | undefined): { doubtfulNumber?: number } {
  return defined({
    doubtfulNumber: before && !isUndelivered(before.outcome) ? before.sendNumber : before?.doubtfulNumber,
  });
}

function granted(state: BudgetState, nowMs: number, { jobId, grantedAtMs }: Grant): AcquireAnswer {
  return {
    kind: 'granted',
    grantedAtMs,
    ledgerSinceMs: state.ledgerSinceMs,
    ...(grantedAtMs > nowMs && { sendAfterMs: grantedAtMs - nowMs }),
    ...defined({ lastJobSeen: recallJob(state, jobId) }),
  };
}

interface Wait {
  reason: WaitReason;
  waiter?: Waiter;
  dueAtMs: number;
  position: number;
  expectedAtMs?: number | undefined;
}

function wait(
  state: BudgetState,
  nowMs: number,
  { reason, waiter, dueAtMs, position, expectedAtMs }: Wait,
): Extract<AcquireAnswer, { kind: 'wait' }> {
  const boundedMs = Math.max(dueAtMs, nowMs + MIN_WAIT_MS);
  if (waiter) waiter.dueAtMs = boundedMs;
  const etaMs = expectedAtMs === undefined ? null : Math.max(0, expectedAtMs - nowMs);
  const { ledgerSinceMs } = state;
  return { kind: 'wait', reason, waitMs: boundedMs - nowMs, position, etaMs, ledgerSinceMs };
}

/**
 * Applies an answer that was given to an ask, instead of computing one. The state then knows what the answering state
 * knew. For a budget whose events are read from its history. The recorded answer counts, whatever the rules would say
 * now.
 */
export function enterAnswer(state: BudgetState, nowMs: number, request: AcquireRequest, answer: AcquireAnswer): void {
  begin(state, nowMs, request);
  const remembered = recall(state, request.workflowId);
  if (answer.kind === 'granted') {
    if (findGrant(state, request.workflowId, request.sendNumber)?.token !== request.token) {
      const waiter = takePlace(state, nowMs, request) ?? newWaiter(state, nowMs, request);
      countOvertaken(state, nowMs, { granted: waiter, line: eligibleLine(state, nowMs) });
      grant(state, nowMs, { waiter, request, slotAtMs: answer.grantedAtMs });
    }
    const taken = findGrant(state, request.workflowId, request.sendNumber);
    if (taken && answer.isAwaited && taken.settledAtMs === undefined) taken.isAwaited = true;
  } else if (answer.kind === 'wait' && answer.reason !== 'queue-full') {
    const waiter = takePlace(state, nowMs, request);
    if (waiter) waiter.dueAtMs = nowMs + answer.waitMs;
  } else if (answer.kind === 'alreadyGranted' && (remembered?.sendNumber ?? 0) < request.sendNumber) {
    rememberDoubt(state, nowMs, request);
  } else if (answer.kind === 'done' && remembered?.sendNumber === request.sendNumber) {
    takeBack(state, nowMs, request);
  } else if (answer.kind === 'closed' && request.withdraw && remembered?.closed !== true) {
    leave(state, nowMs, request);
  }
}
