/**
 * Sizes of the simulated world: those of production (100 an hour, lease 60 s, drain 120 s) made small, so that a seed
 * runs through many windows. The limits in src/budget/limits.ts are the real ones.
 */
export const LIMIT = 5;
/** The limit in some seeds: more than the ten sends that may be unsettled at once. */
export const LARGE_LIMIT = 14;
export const WINDOW_MS = 60_000;
/** Clocks differ by at most that much. */
export const MARGIN_MS = 1_500;
export const LEASE_MS = 10_000;
export const DRAIN_MS = 5_000;
/** Total deadline of one POST. */
export const SEND_TIMEOUT_MS = 3_000;
/** Deadline of one call of an ask, and how long an ask is repeated. */
export const CALL_DEADLINE_MS = 1_700;
export const ASK_FOR_MS = 4_200;
/** Between the POST and the belief that a job shows nothing of it. */
export const SETTLE_TIME_MS = 5_000;

/** From then on nothing fails any more, and everything must come to its end. */
export const HEALED_AT_MS = 240_000;
/** The end of the simulation: what is not over by then is stuck. */
export const END_MS = 2_400_000;
/** The same without faults, where 120 follow-ups queue for 24 windows. */
export const QUEUE_END_MS = 3_000_000;

/** Simulated time 0, in epoch milliseconds: 2024-01-01. */
export const EPOCH_MS = 1_704_067_200_000;
