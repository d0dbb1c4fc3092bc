import type { WorkerConfig } from '../config.js';
import { formatDuration } from '../contract/index.js';
import type { ApiKeySettings } from './agent-jobs-config.js';
import { usesTls } from './temporal-config.js';

/** The configuration for people, setting by setting, without any secret. */
export function describeConfig(config: WorkerConfig): [setting: string, value: string][] {
  const { temporal, agentJobs, budget, capacity, projects, status, logging } = config;
  const { apiKey, tls } = temporal.connectionOptions();
  return [
    ['Temporal', `${temporal.address}, namespace ${temporal.namespace}`],
    ['Temporal encryption', usesTls(tls) ? 'TLS' : 'none'],
    ['Temporal API key', apiKey === undefined ? 'not set' : 'set'],
    ['Agent job service', agentJobs.baseUrl],
    ['Agent job API key', describeKeys(agentJobs.apiKeys)],
    ['Deadlines', `GET ${formatDuration(agentJobs.getTimeoutMs)}, POST ${formatDuration(agentJobs.sendTimeoutMs)}`],
    ['Task queue', config.taskQueue],
    [
      'Budget of a new project',
      `${budget.limit} messages in ${formatDuration(budget.windowMs)}, ${budget.reserve} of them kept from batches`,
    ],
    ['Most of any budget', `${budget.maxLimit} messages in ${formatDuration(budget.windowMs)}`],
    ['Projects', projects === '*' ? 'all' : projects.join(', ')],
    ['Lease, drain, margin', [config.leaseMs, config.drainMs, budget.marginMs].map(formatDuration).join(', ')],
    [
      'At once',
      `${capacity.workflowTasks} workflow tasks, ${capacity.activities} activities, ${capacity.pollers} pollers; ` +
        `${capacity.cachedWorkflows} workflows in the cache`,
    ],
    ['Status address', status === undefined ? 'off' : `${status.host}:${status.port}`],
    ['Log', `${logging.level}, ${logging.format}`],
  ];
}

function describeKeys({ key, keyFile, keysFile }: ApiKeySettings): string {
  const sources = [
    keysFile === undefined ? undefined : `file ${keysFile}, a key a project`,
    keyFile === undefined ? undefined : `file ${keyFile}`,
    key === undefined ? undefined : 'AGENT_JOBS_API_KEY',
  ];
  return sources.filter((source) => source !== undefined).join('; ');
}
