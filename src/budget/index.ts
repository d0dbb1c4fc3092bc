export { beginState } from './begin.js';
export { Budget, type Effects } from './budget.js';
export { carriedStateSchema, carryState, restoreState, type CarriedState } from './carry.js';
export type { BudgetFacts } from './facts.js';
export { assumeFull, limitChangeIssue, reopen, takeOrder } from './operator.js';
export { isUndelivered } from './slots.js';
export { newState, type BudgetState } from './state.js';
