import {
  ASKS_APART_MS,
  GRANT_AHEAD_MS,
  LONGEST_QUIET_MS,
  RECHECK_MS,
  SILENT_WAITER_MS,
  SLOW_SEND_MS,
  UNSETTLED_WAIT_MS,
} from './limits.js';
import { eligibleLine, freeSlots, hasLapsed, invitationGraceMs, startableSends } from './line.js';
import { isPausedByOperator } from './operator.js';
import { expireProbe, isPaused, isProbe, pacedMs, sendsAtOnce } from './pause.js';
import { occupiedSlotEnds, sendEstimateMs, unsettled } from './slots.js';
import type { BudgetState, Waiter } from './state.js';

export interface Watch {
  wake: string[];
  /** When to look again; `undefined` if nobody waits for time to pass. */
  lookAgainAtMs?: number;
}

/**
 * The invitation rule, applied after every event and when the one timer fires. For each slot that is free or about to be,
 * it keeps one eligible waiter invited, and wakes those whose own wait does not end soon. An invitation lapses after a
 * grace period. A lapsed waiter is woken less and less often until it asks, and is dropped when its signal fails.
 * Correctness does not depend on wakes: they may be lost or doubled.
 */
export function watch(state: BudgetState, nowMs: number): Watch {
  expireProbe(state, nowMs);
  const line = eligibleLine(state, nowMs);
  const { wake, nextAtMs } = watchLine(state, nowMs, line);
  wake.push(...silentWaiters(state, nowMs, new Set(line.map((waiter) => waiter.workflowId))));
  const lookAgainAtMs = Math.min(nextAtMs, state.keyRefused?.untilMs ?? Infinity);
  if (lookAgainAtMs === Infinity) return { wake };
  return { wake, lookAgainAtMs: lookAgainAtMs <= nowMs ? nowMs + RECHECK_MS : lookAgainAtMs };
}

/** Whom of the line to wake, and when to look again. */
interface LineWatch {
  wake: string[];
  /** `Infinity`: never. */
  nextAtMs: number;
}

function watchLine(state: BudgetState, nowMs: number, line: readonly Waiter[]): LineWatch {
  if (line.length === 0) return { wake: [], nextAtMs: Infinity };
  if (isPausedByOperator(state, nowMs)) return { wake: [], nextAtMs: state.operatorPause?.untilMs ?? Infinity };
  // Nobody asks before its job has been read.
  if (state.keyRefused) return { wake: [], nextAtMs: Infinity };
  if (state.pause && isPaused(state, nowMs)) {
    const { untilMs } = state.pause;
    const probe = state.grants.find((grant) => isProbe(state.pause, grant));
    const probeEndMs = probe ? probe.grantedAtMs + probe.leaseMs : nowMs;
    return { wake: [], nextAtMs: nowMs < untilMs ? untilMs : probeEndMs + 1 };
  }
  return invite(state, nowMs, line);
}

function invite(state: BudgetState, nowMs: number, line: readonly Waiter[]): LineWatch {
  const wake: string[] = [];
  let nextAtMs = Infinity;
  const startable = Math.min(startableSends(state, nowMs) + startableSoon(state, nowMs), state.pause ? 1 : Infinity);
  const laterEnds = occupiedSlotEnds(state, nowMs + GRANT_AHEAD_MS);
  const graceMs = invitationGraceMs(state);
  let invited = 0;
  const call = (waiter: Waiter, invitedForMs: number) => {
    waiter.quietUntilMs = nowMs + Math.min(Math.max(invitedForMs, RECHECK_MS), LONGEST_QUIET_MS);
    wake.push(waiter.workflowId);
  };
  for (const waiter of line) {
    if (Math.min(freeSlots(state, laterEnds.length, { waiter, line }), startable) - invited <= 0) continue;
    const pacedAtMs = pacedMs(state, invited);
    if (pacedAtMs > nowMs + GRANT_AHEAD_MS) {
      nextAtMs = Math.min(nextAtMs, pacedAtMs - GRANT_AHEAD_MS);
      break;
    }
    if (waiter.invitedAtMs === undefined) {
      waiter.invitedAtMs = nowMs;
      if (waiter.dueAtMs > nowMs + UNSETTLED_WAIT_MS) call(waiter, 0);
    }
    const lapsesAtMs = waiter.invitedAtMs + graceMs;
    if (nowMs <= lapsesAtMs) {
      invited += 1;
      nextAtMs = Math.min(nextAtMs, lapsesAtMs + 1);
      continue;
    }
    if (nowMs >= (waiter.quietUntilMs ?? -Infinity)) call(waiter, nowMs - waiter.invitedAtMs);
    nextAtMs = Math.min(nextAtMs, waiter.quietUntilMs ?? Infinity);
  }
  if (line.some((waiter) => !hasLapsed(state, waiter, nowMs))) {
    for (const endMs of laterEnds) nextAtMs = Math.min(nextAtMs, endMs - GRANT_AHEAD_MS);
  }
  return { wake, nextAtMs };
}

/**
 * How many more sends than may start now can start when a waiter that is invited now has read its job, because sends are
 * settled by then. If they are not, the waiter asks again in place. Nobody is invited for a send that is slow.
 */
function startableSoon(state: BudgetState, nowMs: number): number {
  if ((state.answersInMs ?? Infinity) < ASKS_APART_MS || sendEstimateMs(state) > SLOW_SEND_MS) return 0;
  const slow = unsettled(state, nowMs).filter(({ grantedAtMs }) => nowMs >= grantedAtMs + SLOW_SEND_MS);
  return Math.max(0, sendsAtOnce(state) - slow.length);
}

/**
 * A waiter that no invitation reaches, because it holds or waits for its job, and that has been silent for long. One at a
 * time is woken, so that a dead one is noticed.
 */
function silentWaiters(state: BudgetState, nowMs: number, inLine: ReadonlySet<string>): string[] {
  const silent = state.waiters.find(
    (waiter) =>
      !inLine.has(waiter.workflowId) &&
      nowMs > waiter.heardAtMs + SILENT_WAITER_MS &&
      nowMs >= (waiter.quietUntilMs ?? -Infinity),
  );
  if (!silent) return [];
  silent.quietUntilMs = nowMs + SILENT_WAITER_MS;
  return [silent.workflowId];
}
