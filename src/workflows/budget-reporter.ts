import { proxySinks, type Sinks, workflowInfo } from '@temporalio/workflow';
import type { Budget, BudgetFacts } from '../budget/index.js';

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
 * How one of the budget's counts changed. When a workflow task runs again, the same step is reported twice; it can be
 * distinguished from two steps.
 */
export interface CountStep {
  from: number;
  to: number;
}

/** Where budgets report to. The worker that runs them has to register it. */
export interface BudgetSinks extends Sinks {
  followUpBudget: {
    /** Is not called in replay. */
    report(report: BudgetReport): void;
  };
}

const { followUpBudget } = proxySinks<BudgetSinks>();

/**
 * Reports a budget's facts to the worker that runs it: when the budget arrives at that worker, and then whenever they
 * change. It has no effect on the workflow and leaves nothing in the history.
 */
export class BudgetReporter {
  readonly #budget: Budget;
  #reported: string | undefined;
  #grantCount: number;
  #limitedCount: number;

  constructor(budget: Budget) {
    this.#budget = budget;
    this.#grantCount = budget.state.grantCount;
    this.#limitedCount = budget.state.limitedCount;
  }

  /** Called after every event, also in replay, whose events are counted already. */
  report(nowMs: number): void {
    const { grantCount, limitedCount, lastTimeMs } = this.#budget.state;
    const grants: CountStep = { from: this.#grantCount, to: grantCount };
    const limited: CountStep = { from: this.#limitedCount, to: limitedCount };
    this.#grantCount = grantCount;
    this.#limitedCount = limitedCount;
    if (workflowInfo().unsafe.isReplaying) return;
    const facts = this.#budget.facts(nowMs);
    const text = JSON.stringify(facts);
    if (text === this.#reported && grants.from === grants.to && limited.from === limited.to) return;
    this.#reported = text;
    followUpBudget.report({ facts, budgetTimeMs: Math.max(lastTimeMs, nowMs), grants, limited });
  }
}
