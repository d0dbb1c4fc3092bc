import { createAgentJobsClient, createApiKeys, type GetJobOutcome } from '../agent-jobs/index.js';
import { fewAtATime } from '../temporal/lookups.js';
import type { WorkerConfig } from '../config/index.js';
import type { Check } from './doctor-check.js';
import { type ClockReading, judgeClock } from './doctor-temporal.js';

const PLACEHOLDER = 'follow-up-doctor';

/** Most projects whose keys are tried. */
const MOST_PROJECTS = 50;

/** Options of {@link checkService}. */
interface ServiceChecksOptions {
  /** The project from the command line. */
  project?: string;
  job?: string;
  /** Projects with work. */
  projects: readonly string[];
}

/**
 * Whether the agent job service answers and accepts the key of each project with work, and what its clock says. Reads
 * jobs, which need not exist; sends no message.
 */
export async function checkService(
  config: WorkerConfig | undefined,
  { project, job = PLACEHOLDER, projects }: ServiceChecksOptions,
): Promise<Check[]> {
  const name = 'agent job service';
  if (!config) return [{ name, status: 'note', message: 'not checked: no address or key of the service is set here' }];
  const { baseUrl, apiKeys, getTimeoutMs, sendTimeoutMs } = config.agentJobs;
  const keys = createApiKeys({ ...apiKeys, key: apiKeys.key?.() });
  let clocks: ClockReading | undefined;
  const onDate = (dateMs: number, askedAtMs: number) => {
    clocks ??= readClocks(dateMs, askedAtMs, Date.now());
  };
  const client = createAgentJobsClient({ baseUrl, keys, getTimeoutMs, sendTimeoutMs, onDate });
  const served = projects.filter((id) => config.projects === '*' || config.projects.includes(id));
  const asked = [...new Set([...(project === undefined ? [] : [project]), ...served])].slice(0, MOST_PROJECTS);
  const isMadeUp = asked.length === 0;
  try {
    const outcomes = await fewAtATime(
      isMadeUp ? [PLACEHOLDER] : asked,
      async (projectId): Promise<[string, GetJobOutcome]> => [
        projectId,
        await client.getJob({ projectId, jobId: job }),
      ],
    );
    return [
      ...outcomes.flatMap(([projectId, outcome]) => (isMadeUp ? [] : judgeKey(projectId, outcome))),
      judgeService(outcomes, baseUrl, isMadeUp),
      ...(clocks ? [judgeClock('clock of service', 'the agent job service', clocks)] : []),
    ];
  } finally {
    await client.close();
  }
}

/** A refused or missing key of a project. */
function judgeKey(projectId: string, outcome: GetJobOutcome): Check[] {
  if (outcome.kind !== 'failed' || !isAboutKey(outcome)) return [];
  return [
    {
      name: 'API key',
      subject: projectId,
      status: 'error',
      message: `project ${projectId}: ${outcome.message}`,
      why: 'its follow-ups wait, and no message is sent',
      fix:
        outcome.reason === 'no-key'
          ? 'give the project a key in AGENT_JOBS_API_KEYS_FILE'
          : 'create a new API key in the dashboard, and give it to the workers; check the project id',
    },
  ];
}

function isAboutKey(outcome: GetJobOutcome): boolean {
  if (outcome.kind !== 'failed') return false;
  return outcome.reason === 'no-key' || outcome.statusCode === 401 || outcome.statusCode === 403;
}

/** Whether the service answers at all. */
function judgeService(
  outcomes: readonly (readonly [string, GetJobOutcome])[],
  baseUrl: string,
  isMadeUp: boolean,
): Check {
  const name = 'agent job service';
  const all = outcomes.map(([, outcome]) => outcome);
  const broken = all.find((outcome) => outcome.kind === 'failed' && !isAboutKey(outcome));
  if (broken?.kind === 'failed') {
    return {
      name,
      status: 'error',
      message: `${baseUrl}: ${broken.message}`,
      why: 'no message can be sent, and no job can be read',
      fix:
        broken.statusCode === undefined
          ? 'check AGENT_JOBS_BASE_URL and the network between here and there'
          : 'check AGENT_JOBS_BASE_URL, or ask the operator of the service',
    };
  }
  const taken = all.filter(({ kind }) => kind !== 'failed').length;
  if (taken > 0) {
    const keys = isMadeUp ? 'the key' : `the ${taken === 1 ? 'key of 1 project' : `keys of ${taken} projects`}`;
    return { name, status: 'ok', message: `${baseUrl} answers and accepts ${keys}` };
  }
  const [first] = all;
  const words = first?.kind === 'failed' ? `: ${first.message}` : '';
  if (isMadeUp && first?.kind === 'failed' && first.reason === 'no-key') {
    return {
      name,
      status: 'note',
      message: 'not checked: no project has work; name a project that has a key with --project',
    };
  }
  if (isMadeUp) {
    return {
      name,
      status: 'error',
      message: `${baseUrl}${words}; the project was made up, give a real one with --project`,
      why: 'no message can be sent, and no job can be read',
      fix: 'create a new API key in the dashboard, and give it to the workers',
    };
  }
  return { name, status: 'note', message: `${baseUrl} did not show whether it accepts the key` };
}

/**
 * A `Date` header is truncated to the second, so half a second is added; the request is assumed to take half the round
 * trip.
 */
function readClocks(dateMs: number, askedAtMs: number, answeredAtMs: number): ClockReading {
  return { here: new Date((askedAtMs + answeredAtMs) / 2), there: new Date(dateMs + 500) };
}
