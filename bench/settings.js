/** What is the same on both sides, and known to several files. */

/** The two ways of doing a follow-up that are compared. */
export const SIDES = ['naive', 'product'];

export const TASK_QUEUE = 'bench';

/** The service takes any; the worker wants one that looks like a key. */
export const API_KEY = 'key-of-the-benchmark';

/** Projects that the follow-ups are spread over. One budget lets at most 10 of its sends be unsettled at once. */
export const PROJECTS = 10;

/** Sends per project and hour: more than a benchmark makes. */
export const BUDGET_LIMIT = 10_000;

/**
 * What is run: turns that end at a few looks, with more at once than two cores can keep up with, and turns that end at
 * many, with as many as they can. Both sides make the same number of looks only where a turn lasts longer than 10 s: the
 * product looks once more before it believes an earlier end.
 */
export const RUNS = [
  { name: '5 looks', followUps: 300, looks: 5, intervalMs: 2_500 },
  { name: '30 looks', followUps: 100, looks: 30, intervalMs: 2_000 },
];

/** A service that takes so long to answer a read. */
export const SLOW_READ_MS = 5_000;

/** Finished before anything is measured: code is loaded and compiled by then. */
export const WARM_UP_FOLLOW_UPS = 20;
