export { Budget, type Effects } from './budget.js';
export { carryState, newState, restoreState, type CarriedState } from './state.js';
