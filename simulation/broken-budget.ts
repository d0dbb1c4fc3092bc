import type { Budget } from '../src/budget/index.js';
import type { Breakage } from './breakages.js';

/** Handles one event of the budget with some rules taken out, by changing its state before and after. */
export function withBrokenRules<T>(
  broken: ReadonlySet<Breakage>,
  { budget, timeMs }: { budget: Budget; timeMs: number },
  handle: () => T,
): T {
  if (broken.has('clock')) budget.state.lastTimeMs = 0;
  const result = broken.has('probeLease') ? withEndlessProbe(budget, timeMs, handle) : handle();
  if (broken.has('drain')) endSlotsAtSettle(budget);
  return result;
}

/** A send whose outcome is unknown is taken to be over once its sender has given up. */
function endSlotsAtSettle({ state }: Budget): void {
  for (const grant of state.grants) {
    if (grant.outcome === 'unknown' && grant.settledAtMs !== undefined) {
      grant.leaseMs = Math.max(0, Math.min(grant.leaseMs, grant.settledAtMs - grant.grantedAtMs));
    }
  }
}

/** A probe past its lease is hidden from the rules, which would give it up, behind a pause that goes on. */
function withEndlessProbe<T>({ state }: Budget, timeMs: number, handle: () => T): T {
  const { pause } = state;
  const nowMs = Math.max(timeMs, state.lastTimeMs);
  const probe = pause?.probe;
  const grant = state.grants.find(
    ({ workflowId, sendNumber }) => workflowId === probe?.workflowId && sendNumber === probe.sendNumber,
  );
  const isGivenUp = grant && grant.settledAtMs === undefined && nowMs > grant.grantedAtMs + grant.leaseMs;
  if (!pause || !probe || !isGivenUp) return handle();
  const { untilMs } = pause;
  delete pause.probe;
  pause.untilMs = Math.max(untilMs, nowMs + 1_000);
  const result = handle();
  if (state.pause) Object.assign(state.pause, { probe, untilMs });
  return result;
}
