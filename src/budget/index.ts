export { Budget, type Effects } from './budget.js';
export { carryState, newState, restoreState, type BudgetState, type CarriedState } from './state.js';
