/**
 * Everything that callers of the workflows need. Safe to import anywhere, also in workflow code and in browsers.
 *
 * @module
 */
export * from './batch-input.js';
export * from './batch-result.js';
export * from './budget-status.js';
export * from './choices.js';
export * from './durations.js';
export * from './follow-up-input.js';
export * from './follow-up-progress.js';
export * from './follow-up-result.js';
export * from './ids.js';
export * from './names.js';
export * from './validation.js';
export * from './webhook.js';
