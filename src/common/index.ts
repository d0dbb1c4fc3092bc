// Small helpers that run anywhere, also in workflow code.
export * from './defined.js';
export * from './description.js';
export * from './messages.js';
export * from './patches.js';
export * from './schemas.js';
export * from './text.js';
