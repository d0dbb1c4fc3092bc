import { ASK_FOR_MS, SILENT_AFTER_MS } from '../src/activities/ask-again.js';

/** Sizes of a simulated world. */
export interface Sizes {
  limit: number;
  windowMs: number;
  /** Clocks differ by at most this much. */
  marginMs: number;
  leaseMs: number;
  drainMs: number;
  /** Total deadline of one POST. */
  sendTimeoutMs: number;
  /** Deadline of one call of an ask, and how long an ask is repeated. */
  callDeadlineMs: number;
  askForMs: number;
  /** A budget that answers nobody for this long is silent. */
  silentAfterMs: number;
  /** Time after the POST at which an unchanged job is believed. */
  settleTimeMs: number;
}

/**
 * The sizes of production scaled down, so that a seed runs through many windows. The limits in src/budget/limits.ts are
 * the real ones.
 */
export const SMALL: Sizes = {
  limit: 5,
  windowMs: 60_000,
  marginMs: 1_500,
  leaseMs: 10_000,
  drainMs: 5_000,
  sendTimeoutMs: 3_000,
  callDeadlineMs: 1_700,
  askForMs: 4_200,
  silentAfterMs: 1_000,
  settleTimeMs: 5_000,
};

/** The sizes of production. */
export const HOUR: Sizes = {
  limit: 100,
  windowMs: 3_600_000,
  marginMs: 2_000,
  leaseMs: 60_000,
  drainMs: 120_000,
  sendTimeoutMs: 30_000,
  callDeadlineMs: 10_000,
  askForMs: ASK_FOR_MS,
  silentAfterMs: SILENT_AFTER_MS,
  settleTimeMs: 120_000,
};

/** The limit in some seeds with faults: more than the ten sends that may be unsettled at once. */
export const LARGE_LIMIT = 14;

/** From this time on nothing fails any more, and everything must come to its end. */
export const HEALED_AT_MS = 240_000;

/** Simulated time 0, in epoch milliseconds: 2024-01-01. */
export const EPOCH_MS = 1_704_067_200_000;
