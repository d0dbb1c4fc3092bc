/**
 * Everything that crosses a boundary: ids, inputs, results, messages, failure types. Safe to import anywhere: in
 * workflow code, in activities, in clients and in browsers' build tools. Imports no client, worker or HTTP code.
 *
 * @module
 */
export * from './agent-job.js';
export * from './batch-input.js';
export * from './batch-messages.js';
export * from './batch-result.js';
export * from './budget-messages.js';
export * from './choices.js';
export * from './durations.js';
export * from './failures.js';
export * from './follow-up-result.js';
export * from './follow-up-input.js';
export * from './follow-up-messages.js';
export * from './budget-message-schemas.js';
export * from './ids.js';
export * from './names.js';
export * from './validation.js';
