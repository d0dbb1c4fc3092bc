export { Budget, type Effects } from './budget.js';
export { beginState, carriedStateSchema, type CarriedState, carryState, restoreState } from './carry.js';
export { assumeFull, limitChangeIssue, reopen, takeOrder } from './operator.js';
export { isUndelivered } from './slots.js';
export { type BudgetState, newState } from './state.js';
export type { BudgetFacts } from './status.js';
