// HTTP client of the agent job service.
export * from './agent-jobs-client.js';
export { type ApiKeys, createApiKeys, type WatchedApiKeys } from './api-keys.js';
export { type GetJobOutcome, type SendMessageOutcome } from './outcomes.js';
