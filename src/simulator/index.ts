/**
 * A simulated agent job service: a real HTTP server with the interface of the real one, for demonstrations, tests and
 * measurements. Its ledger is the ground truth of what was delivered.
 *
 * @module
 */
export { HOSTILE_PR_LINK, UNKNOWN_STATUS } from './answer.js';
export type { FaultKind, PlannedFault } from './fault-plan.js';
export type { LedgerEntry } from './ledger.js';
export type { MessageStep } from './message-hook.js';
export { simulatorOptionsSchema, type SimulatorOptions } from './options.js';
export { startSimulator, type Simulator } from './simulator.js';
