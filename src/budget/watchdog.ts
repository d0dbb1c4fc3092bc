import {
  GRANT_AHEAD_MS,
  INVITATION_GRACE_MS,
  LONGEST_QUIET_MS,
  RECHECK_MS,
  SILENT_WAITER_MS,
  UNSETTLED_WAIT_MS,
} from './limits.js';
import { eligibleLine, freeSlots, hasLapsed, startableSends } from './line.js';
import { isPausedByOperator } from './operator.js';
import { pacedMs } from './pace.js';
import { expireProbe, isPaused, isProbe } from './pause.js';
import { occupiedSlotEnds } from './slots.js';
import type { BudgetState } from './state.js';

/** What is to be done after an event. */
export interface Watch {
  /** Workflow ids to wake. */
  wake: string[];
  /** When to look again; `undefined` while nobody waits for time to pass. */
  lookAgainAtMs?: number;
}

/**
 * The invitation rule, run after every event and when the one timer fires: keep one invitation for each slot that is
 * free or about to be along the eligible waiters, and wake those whose own wait does not end soon. An invitation lapses after a
 * grace; a lapsed waiter is woken ever more seldom until it asks, and dropped when its signal fails. No correctness rests on a wake: it
 * may be lost or doubled.
 */
export function watch(state: BudgetState, nowMs: number): Watch {
  expireProbe(state, nowMs);
  const wake: string[] = [];
  let lookAgainAtMs = Infinity;
  const line = eligibleLine(state, nowMs);

  if (isPausedByOperator(state, nowMs)) {
    if (line.length > 0) lookAgainAtMs = state.operatorPause?.untilMs ?? Infinity;
  } else if (state.keyRefused) {
    // Nobody asks before it has read its job.
  } else if (isPaused(state, nowMs) && state.pause) {
    const probe = state.grants.find((grant) => isProbe(state.pause, grant));
    if (line.length > 0) {
      lookAgainAtMs =
        nowMs < state.pause.untilMs ? state.pause.untilMs : (probe ? probe.grantedAtMs + probe.leaseMs : nowMs) + 1;
    }
  } else {
    const startable = Math.min(startableSends(state, nowMs), state.pause ? 1 : Infinity);
    const laterEnds = occupiedSlotEnds(state, nowMs + GRANT_AHEAD_MS);
    let invited = 0;
    for (const waiter of line) {
      if (Math.min(freeSlots(state, laterEnds.length, { waiter, line }), startable) - invited <= 0) continue;
      const pacedAtMs = pacedMs(state, invited);
      if (pacedAtMs > nowMs + GRANT_AHEAD_MS) {
        lookAgainAtMs = Math.min(lookAgainAtMs, pacedAtMs - GRANT_AHEAD_MS);
        break;
      }
      if (waiter.invitedAtMs === undefined) {
        waiter.invitedAtMs = nowMs;
        if (waiter.dueAtMs > nowMs + UNSETTLED_WAIT_MS) wake.push(waiter.workflowId);
      }
      if (hasLapsed(waiter, nowMs)) {
        if (nowMs >= (waiter.quietUntilMs ?? -Infinity)) {
          const lapsedForMs = nowMs - (waiter.invitedAtMs ?? nowMs);
          waiter.quietUntilMs = nowMs + Math.min(Math.max(lapsedForMs, RECHECK_MS), LONGEST_QUIET_MS);
          wake.push(waiter.workflowId);
        }
        lookAgainAtMs = Math.min(lookAgainAtMs, waiter.quietUntilMs ?? Infinity);
        continue;
      }
      invited += 1;
      lookAgainAtMs = Math.min(lookAgainAtMs, waiter.invitedAtMs + INVITATION_GRACE_MS + 1);
    }
    if (line.some((waiter) => !hasLapsed(waiter, nowMs))) {
      for (const endMs of laterEnds) lookAgainAtMs = Math.min(lookAgainAtMs, endMs - GRANT_AHEAD_MS);
    }
  }
  lookAgainAtMs = Math.min(lookAgainAtMs, state.keyRefused?.untilMs ?? Infinity);
  wake.push(...silentWaiters(state, nowMs, new Set(line.map((waiter) => waiter.workflowId))));
  if (lookAgainAtMs === Infinity) return { wake };
  return { wake, lookAgainAtMs: lookAgainAtMs <= nowMs ? nowMs + RECHECK_MS : lookAgainAtMs };
}

/** Waiters that no invitation reaches (they hold, or wait for their job): one a time, so that a dead one is found out. */
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
