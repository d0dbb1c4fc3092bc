export { Budget, type Effects } from './budget.js';
export { carryState, restoreState, type CarriedState } from './carry.js';
export { newState } from './state.js';
