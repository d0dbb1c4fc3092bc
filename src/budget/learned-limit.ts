import type { BudgetState } from './state.js';

/** A limit is learned only if it is at least this share of the budget's limit, and at least 2 messages. */
const LEARNED_SHARE = 0.05;
/** Sends older than this share of a window may no longer count for the service. */
const SURELY_IN_WINDOW = 0.9;
/** A learned limit grows after 1, 2, 4, up to 32 windows, doubling each time it proves right. */
const MAX_GROWTH_DOUBLINGS = 5;

/** Learns from a 429 how many messages the service accepts in a window, unless a short burst led to it. */
export function learnLimit(state: BudgetState, outcome: 'limited' | 'sent', isProbe: boolean, atMs: number): void {
  const { learned, spent, settings } = state;
  const acceptedSince = (sinceMs: number) => spent.filter((fromMs) => fromMs > sinceMs).length;
  if (outcome === 'sent') {
    const accepted = acceptedSince(atMs - SURELY_IN_WINDOW * settings.windowMs);
    if (!learned || accepted <= learned.limit) return;
    // Around the ends of its windows, a service with fixed windows accepts more, so a limit that proved right twice
    // stays.
    if (!isProbe) learned.limit = accepted;
    else if (learned.refusals === 1) {
      learned.limit = settings.limit;
      learned.growAtMs = atMs + settings.windowMs;
    }
    return;
  }
  const accepted = acceptedSince(atMs - settings.windowMs);
  if (accepted < Math.max(2, LEARNED_SHARE * settings.limit)) return;
  const limit = Math.min(learned?.limit ?? Infinity, accepted);
  // All refusals of a pause count as one.
  const refusals = (learned?.refusals ?? 0) + (state.servicePause ? 0 : 1);
  state.learned = { limit, step: 1, refusals, growAtMs: atMs + growthMs(state, refusals) };
}

function growthMs({ settings }: BudgetState, refusals: number): number {
  return settings.windowMs * 2 ** Math.min(MAX_GROWTH_DOUBLINGS, Math.max(0, refusals - 1));
}

/** Raises a learned limit from time to time, to test whether the service accepts more. */
export function growLimit(state: BudgetState, configuredLimit: number, nowMs: number): void {
  for (let { learned } = state; learned && learned.growAtMs <= nowMs; { learned } = state) {
    learned.limit += learned.step;
    learned.step *= 2;
    learned.growAtMs += growthMs(state, learned.refusals);
    if (learned.limit >= configuredLimit) delete state.learned;
  }
}
