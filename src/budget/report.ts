import type { BudgetFacts } from './facts.js';

/** What a budget reports to the worker that runs it, for the worker's metrics. Plain JSON. */
export interface BudgetReport {
  facts: BudgetFacts;
  /** Budget time of the facts, in epoch milliseconds. */
  budgetTimeMs: number;
  /** Sends that were granted. */
  grants: CountStep;
  /** Sends that the service answered with 429. */
  limited: CountStep;
}

/**
 * How a count of the budget's went on. A step that is reported twice, because a workflow task had to be run again, can be
 * told from two steps.
 */
export interface CountStep {
  from: number;
  to: number;
}
