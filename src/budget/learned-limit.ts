import type { BudgetState } from './state.js';

/** A limit is learned if the service accepted at least this share of the budget's, and no fewer than 2 messages. */
const LEARNED_SHARE = 0.05;
/** Sends older than this share of a window may no longer count for the service. */
const SURELY_IN_WINDOW = 0.9;
/** A learned limit grows after one window, then after 2, 4, up to 32 windows, for each time it proved right. */
const MAX_GROWTH_DOUBLINGS = 5;

/** A 429 says how many messages in a window the service accepts, if a full window, and not a short burst, led to it. */
export function learnLimit(state: BudgetState, outcome: 'limited' | 'sent', isProbe: boolean, atMs: number): void {
  const { learned, spent, settings } = state;
  const acceptedSince = (sinceMs: number) => spent.filter((fromMs) => fromMs > sinceMs).length;
  if (outcome === 'sent') {
    const accepted = acceptedSince(atMs - SURELY_IN_WINDOW * settings.windowMs);
    if (!learned || accepted <= learned.limit) return;
    // A service with fixed windows accepts more around their ends, so a limit that proved right twice stays.
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
  // The refusals of one pause count once.
  const refusals = (learned?.refusals ?? 0) + (state.servicePause ? 0 : 1);
  state.learned = { limit, step: 1, refusals, growAtMs: atMs + growthMs(state, refusals) };
}

function growthMs({ settings }: BudgetState, refusals: number): number {
  return settings.windowMs * 2 ** Math.min(MAX_GROWTH_DOUBLINGS, Math.max(0, refusals - 1));
}

/** Tries again from time to time whether the service accepts more. */
export function growLimit(state: BudgetState, configuredLimit: number, nowMs: number): void {
  for (let { learned } = state; learned && learned.growAtMs <= nowMs; { learned } = state) {
    learned.limit += learned.step;
    learned.step *= 2;
    learned.growAtMs += growthMs(state, learned.refusals);
    if (learned.limit >= configuredLimit) delete state.learned;
  }
}
