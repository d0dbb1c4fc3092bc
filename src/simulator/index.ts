/**
 * A simulated agent job service: a real HTTP server with the interface of the real one, for demonstrations, tests and
 * measurements. Its ledger is the ground truth of what was delivered.
 *
 * @module
 */
export { HOSTILE_PR_LINK, UNKNOWN_STATUS } from './answer.js';
export { CONTROL_PREFIX, type SimulatorStats } from './control-api.js';
export { faultKinds, type FaultKind, type PlannedFault, type SimulatorFaults } from './fault-plan.js';
export type { JobBehaviour } from './job-behaviour.js';
export type { JobChange, JobSnapshot, NewJob } from './job-store.js';
export type { LedgerEntry } from './ledger.js';
export { DEMO_API_KEY, simulatorOptionsSchema, type SimulatorOptions, type SimulatorUpdate } from './options.js';
export { startSimulator, type Simulator } from './simulator.js';
