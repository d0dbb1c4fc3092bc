/** Settings that all sides and several files share. */

/** The ways of doing a follow-up that are compared. */
export const SIDES = ['naive', 'bare', 'product'];

export const TASK_QUEUE = 'bench';

/** The service accepts any key. The worker requires one that looks like a key. */
export const API_KEY = 'key-of-the-benchmark';

/** How many projects share up to 1,000 follow-ups. One budget allows at most 10 unsettled sends at once. */
export const PROJECTS = 10;

/** More than 1,000 follow-ups have more projects: one for as many as the service takes in an hour. */
export const FOLLOW_UPS_PER_PROJECT = 100;

/** Sends per project and hour. It is more than a benchmark makes. */
export const BUDGET_LIMIT = 10_000;

/**
 * The runs. One has turns of few looks, and more follow-ups at once than two cores can keep up with. The other has
 * turns of many looks, and as many follow-ups as two cores can keep up with. All sides make the same number of looks
 * only if a turn lasts longer than 10 s: the product looks once more before it accepts an earlier end.
 */
export const RUNS = [
  { name: '5 looks', followUps: 300, looks: 5, intervalMs: 2_500 },
  { name: '30 looks', followUps: 100, looks: 30, intervalMs: 2_000 },
];

/** How long a slow service takes to answer a read. */
export const SLOW_READ_MS = 5_000;

/** They end before any measurement, so that the code is loaded and compiled. */
export const WARM_UP_FOLLOW_UPS = 20;
