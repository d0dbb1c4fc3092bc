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

/** The product's own setting, given to the other side as well. Sleeping follow-ups must fit in. */
export const MAX_CACHED_WORKFLOWS = 2_000;

/** Finished before anything is measured: code is loaded and compiled by then. */
export const WARM_UP_FOLLOW_UPS = 20;

/**
 * Within 10 s of the send the product polls once more before it believes an end, and it spreads each wait by 10 %. A
 * benchmark that is to make the same number of polls on both sides must not end its jobs before.
 */
export const EARLIEST_END_MS = 10_000;
export const SHORTEST_WAIT_SHARE = 0.9;
