import { proxySinks, type Sinks, workflowInfo } from '@temporalio/workflow';
import type { BudgetReport, CountStep } from '../budget/facts.js';
import type { Budget } from '../budget/index.js';

/** Where budgets report to. The worker that runs them has to register it. */
export interface BudgetSinks extends Sinks {
  followUpBudget: {
    /** Is not called in replay. */
    report(report: BudgetReport): void;
  };
}

const { followUpBudget } = proxySinks<BudgetSinks>();

/**
 * Reports a budget's facts to the worker that runs it: when the budget comes to that worker, and then when they change. It
 * has no part in what the workflow does: nothing of it is in the history.
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

  /** Called after every event, in replay, too: what happened then is counted already. */
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
