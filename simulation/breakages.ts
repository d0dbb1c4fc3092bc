import type { Budget } from '../src/budget/index.js';

/**
 * Rules that can be disabled, one by one, to see whether the simulation notices. All of it is done from outside the
 * rules: the product has no switch for it.
 */
export const breakages = {
  nonce: "an attempt's token is its activity id and attempt number, which repeat after a reset",
  token: 'all attempts of a send share a token',
  unknown: 'a send whose outcome is unknown is taken to be not sent',
  belief: 'a terminal status is believed at once',
  finish: 'a follow-up does not tell the budget its end',
  claim: 'every ask says that none before it has sent',
  askNumber: 'a budget takes the ask that it hears last for the newest',
  mark: 'a grant is not noted with the server before the send',
  restore: 'a terminated budget starts empty',
  clock: 'budget time may go back, and slots are held no longer than the window',
  wall: 'the stopwatch before the first byte is the monotonic clock alone',
  ceiling: 'workers do not say what they let any budget grant',
  wait: 'a slot that is granted ahead is used at once',
  drain: 'a slot is not held for bytes that are still on their way',
  age: 'a slot is held only from the start of its send',
  probeLease: 'a probe that never settles is never given up',
  awaitCancel: 'a cancelled follow-up does not await its running send',
} as const;

/** Name of a rule that can be disabled. */
export type Breakage = keyof typeof breakages;

/** Whether a text names such a rule. */
export function isBreakage(text: string): text is Breakage {
  return Object.hasOwn(breakages, text);
}

/** Handles one event of the budget with some rules disabled, by changing its state before and after. */
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

/** A send whose outcome is unknown counts as over once its sender has given up. */
function endSlotsAtSettle({ state }: Budget): void {
  for (const grant of state.grants) {
    if (grant.outcome === 'unknown' && grant.settledAtMs !== undefined) {
      grant.leaseMs = Math.max(0, Math.min(grant.leaseMs, grant.settledAtMs - grant.grantedAtMs));
    }
  }
}

/** Hides a probe past its lease from the rules, which would give it up, behind a pause that continues. */
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
