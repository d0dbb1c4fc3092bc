import { createAgentJobsClient, createApiKeys, type GetJobOutcome } from '../agent-jobs/index.js';
import type { WorkerConfig } from '../config.js';
import type { Check } from './doctor-temporal.js';

const PLACEHOLDER = 'follow-up-doctor';

/** Whether the agent job service answers, and takes the key: reads a job, which need not exist. Sends no message. */
export async function checkService(
  config: WorkerConfig | undefined,
  { project, job }: { project?: string; job?: string },
): Promise<Check> {
  const name = 'agent job service';
  if (!config) return { name, status: 'error', message: 'not tried: settings are missing' };
  const { baseUrl, apiKeys, getTimeoutMs, sendTimeoutMs } = config.agentJobs;
  const keys = createApiKeys({ ...apiKeys, key: apiKeys.key?.() });
  const client = createAgentJobsClient({ baseUrl, keys, getTimeoutMs, sendTimeoutMs });
  try {
    const outcome = await client.getJob({ projectId: project ?? PLACEHOLDER, jobId: job ?? PLACEHOLDER });
    return { name, ...judge(outcome, baseUrl, project !== undefined) };
  } finally {
    await client.close();
  }
}

function judge(outcome: GetJobOutcome, baseUrl: string, knowsProject: boolean): Omit<Check, 'name'> {
  const tried = knowsProject ? '' : '; a project was made up for it, give a real one with --project';
  switch (outcome.kind) {
    case 'job':
      return { status: 'ok', message: `${baseUrl} answers and takes the key` };
    case 'notFound':
      return {
        status: 'ok',
        message: `${baseUrl} answers and takes the key (404 for a job that need not exist)${tried}`,
      };
    case 'failed':
      return {
        status: 'error',
        message: `${baseUrl}: ${outcome.message}${tried}`,
        mend: mendOf(outcome.reason, outcome.statusCode),
      };
  }
}

function mendOf(reason: string, statusCode: number | undefined): string {
  if (reason === 'no-key') return 'give the project a key in AGENT_JOBS_API_KEYS_FILE, or name another with --project';
  if (statusCode === 401 || statusCode === 403) return 'make a new API key in the dashboard, and check the project id';
  if (statusCode === undefined) return 'check AGENT_JOBS_BASE_URL and the network between here and there';
  return 'check AGENT_JOBS_BASE_URL, or ask whoever runs the service';
}
