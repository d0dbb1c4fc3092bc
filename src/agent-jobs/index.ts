/**
 * HTTP client of the agent job service.
 *
 * @module
 */
export {
  createAgentJobsClient,
  type AgentJobsClient,
  type AgentJobsClientOptions,
  type JobAddress,
  type SendMessageRequest,
} from './agent-jobs-client.js';
export { createApiKeys, type ApiKeys, type ApiKeySource, type WatchedApiKeys } from './api-keys.js';
export { type GetJobFailureReason, type GetJobOutcome, type SendMessageOutcome } from './outcomes.js';
export { MAX_RETRY_AFTER_MS } from './retry-after.js';
