// What the workflows and activities of this project say to each other. Not published.
export * from './batch-items.js';
export * from './batch-protocol.js';
export * from './budget-protocol.js';
export * from './budget-start.js';
export * from './refusal-texts.js';
export * from './response-meanings.js';
export * from './webhook-protocol.js';
