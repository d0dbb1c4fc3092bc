import { hostname } from 'node:os';
import { z } from 'zod';
import { createAgentJobsClient, createApiKeys, type GetJobOutcome } from '../agent-jobs/index.js';
import { type Health, InvalidInputError, TemporalUnreachableError, WorkerUnavailableError } from '../client/index.js';
import { messageOf } from '../common/index.js';
import { ConfigError, describeIgnoredProxies, loadConfig, type WorkerConfig } from '../config/index.js';
import { idSchema } from '../contract/index.js';
import { reachableHost } from '../node/tcp-ports.js';
import { safeLine } from '../node/terminal-text.js';
import { REFUSALS } from '../protocol/index.js';
import { type Cli, ExitCode } from './cli.js';
import {
  type Check,
  checked,
  checkOfTrouble,
  judgeAgreement,
  judgeBatch,
  judgeBudget,
  judgeFollowUp,
  judgeQueue,
  judgeRetention,
  judgeVersioning,
  type WorkerIdentity,
  workersOf,
} from './doctor-verdicts.js';
import { clock } from './lines.js';
import { type TemporalSession, withTemporal } from './session.js';

/** Results from Temporal. `projects` have follow-ups that run or have just ended; missing if that is not known. */
interface Examined {
  checks: Check[];
  projects?: string[];
  hasWorkers: boolean;
  workers: WorkerIdentity[];
  isUnreachable?: boolean;
}

const NOTHING = { hasWorkers: false, workers: [] };

/** `follow-up doctor` */
export async function runDoctor({ env, output }: Cli, options: { project?: string; job?: string }): Promise<ExitCode> {
  InvalidInputError.check(z.object({ project: idSchema.optional(), job: idSchema.optional() }), options);
  const temporal = await withTemporal({ env, output }, examineTemporal).catch((error: unknown): Examined => {
    if (!(error instanceof ConfigError)) throw error;
    const checks = [checked('Temporal', 'error', 'not checked: its settings are invalid')];
    return { checks, ...NOTHING };
  });
  const { config, check } = examineSettings(env, temporal.hasWorkers);
  const security = (config?.warnings ?? []).map((message) => checked('security', 'warning', message));
  const service = await examineService(config, options, temporal.projects);
  const agreement = judgeAgreement(temporal.workers, config);
  const own = await examineOwnWorker(temporal.workers, config);
  const checks = [check, ...security, ...agreement, ...own, ...service, ...temporal.checks];
  const errors = checks.filter(({ status }) => status === 'error').length;
  const warnings = checks.filter(({ status }) => status === 'warning').length;
  const ok = errors + warnings === 0;
  const verdict = ok ? 'no problems found' : `${errors + warnings} to fix`;
  output.data({ ok, errors, warnings, checks }, [...checks.map(describe), verdict].join('\n'));
  if (ok) return ExitCode.ok;
  if (check.status === 'error') return ExitCode.usage;
  return temporal.isUnreachable ? ExitCode.unreachable : ExitCode.error;
}

/** Describes a check: one line, plus a line each for its start, its importance, and the fix. */
function describe({ name, status, message, since, why, fix }: Check): string {
  const more = [since && `since ${clock(since)}`, why].filter((line) => line !== undefined);
  const lines = more.map((line) => `${' '.repeat(28)}${safeLine(line)}`);
  if (fix !== undefined) lines.push(`  -> ${safeLine(fix)}`);
  return [`${status.padEnd(7)}  ${name.padEnd(17)}  ${safeLine(message)}`, ...lines].join('\n');
}

/** Workers elsewhere have their own settings: while one runs, the service's settings may be missing here. */
function examineSettings(env: Cli['env'], hasWorkers: boolean): { config?: WorkerConfig; check: Check } {
  const name = 'configuration';
  try {
    return { config: loadConfig(env), check: checked(name, 'ok', 'all required settings are present') };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    if (hasWorkers && error.issues.every(({ name }) => name.startsWith('AGENT_JOBS_') && !env[name]?.trim())) {
      return { check: checked(name, 'note', "running workers have the service's settings; they are missing here") };
    }
    const message = error.issues.map((issue) => `${issue.name}: ${issue.message}`).join('; ');
    const why = 'a worker does not start with these settings';
    return { check: checked(name, 'error', message, { why, fix: 'set these in the environment of the worker' }) };
  }
}

const OWN_WORKER_TIMEOUT_MS = 3_000;

/** Used if no project has work or no job is given. */
const MADE_UP = 'follow-up-doctor';

/** Checks that the agent job service accepts the keys of at most 50 projects with work. The jobs need not exist. */
async function examineService(
  config: WorkerConfig | undefined,
  { project, job = MADE_UP }: { project?: string; job?: string },
  active: readonly string[] | undefined,
): Promise<Check[]> {
  const name = 'agent job service';
  if (!config) return [checked(name, 'note', 'not checked: its settings are missing or invalid, see above')];
  const { baseUrl, apiKeys, getTimeoutMs, sendTimeoutMs } = config.agentJobs;
  const keys = createApiKeys({ ...apiKeys, key: apiKeys.key?.() });
  const client = createAgentJobsClient({ baseUrl, keys, getTimeoutMs, sendTimeoutMs });
  const served = (active ?? []).filter((id) => config.projects === '*' || config.projects.includes(id));
  const projects = [...new Set(project === undefined ? served : [project, ...served])].slice(0, 50);
  const asked = projects.length > 0 ? projects : [MADE_UP];
  try {
    const hint = active ? '; no project has work: name a real one with --project' : '; name a real one with --project';
    const read = async (id: string) => judgeRead(id, await client.getJob({ projectId: id, jobId: job }), hint);
    const failed = (await Promise.all(asked.map(read))).flat();
    const message = `${baseUrl} answers and accepts the API key; projects tried: ${asked.length - failed.length}`;
    return failed.length === asked.length ? failed : [checked(name, 'ok', message), ...failed];
  } finally {
    await client.close();
  }
}

/** Interprets a failed read. A missing job is a normal result. */
function judgeRead(projectId: string, outcome: GetJobOutcome, hintIfMadeUp: string): Check[] {
  if (outcome.kind !== 'failed') return [];
  const { reason, statusCode } = outcome;
  const isAboutKey = reason === 'no-key' || statusCode === 401 || statusCode === 403;
  const isMadeUp = projectId === MADE_UP;
  let fix = 'check AGENT_JOBS_BASE_URL and the network, or ask the operator of the service';
  if (statusCode === 402) fix = REFUSALS.payment.fix;
  if (isAboutKey) fix = 'create a new API key at the service and set it for the workers; check the project id';
  if (reason === 'no-key') fix = 'add a key of the project to AGENT_JOBS_API_KEYS_FILE';
  const hint = isMadeUp && isAboutKey ? hintIfMadeUp : '';
  const name = isAboutKey && !isMadeUp ? 'API key' : 'agent job service';
  const details = { subject: projectId, why: 'its follow-ups wait, and no message is sent', fix };
  const status = isMadeUp && reason === 'no-key' ? 'note' : 'error';
  return [checked(name, status, `project ${projectId}: ${outcome.message}${hint}`, details)];
}

async function examineTemporal(session: TemporalSession): Promise<Examined> {
  const { address, namespace } = session.config;
  const proxies = describeIgnoredProxies(session.config);
  try {
    const health = await session.followUps.health();
    const workers = health.taskQueues.map(judgeQueue);
    const hasWorkers = workers.every(({ status }) => status === 'ok');
    const message = `${address} answers, server ${health.serverVersion}${proxies}`;
    const lack = { why: 'no follow-up can be started', fix: 'follow-up setup' };
    const attributes = health.hasSearchAttributes
      ? checked('search attributes', 'ok', 'all are registered')
      : checked('search attributes', 'error', 'not all are registered', lack);
    const namespaces = [judgeRetention(session.config, health.retentionMs), attributes, ...judgeVersioning(health)];
    const { checks, projects } = await examineWork(session, health, hasWorkers);
    return {
      checks: [checked('Temporal', 'ok', message), ...namespaces, ...workers, ...checks],
      ...{ projects, hasWorkers, workers: workersOf(health) },
    };
  } catch (error) {
    const text = messageOf(error);
    const why = 'nothing can be started, sent or shown; running follow-ups continue when this is fixed';
    const fix = text.includes('no namespace')
      ? `temporal operator namespace create --namespace ${namespace} --retention 72h, or check TEMPORAL_NAMESPACE`
      : 'check TEMPORAL_ADDRESS, TLS settings and credentials, or start a server on this machine: follow-up dev';
    const checks = [checked('Temporal', 'error', `${text}${proxies}`, { why, fix })];
    return { checks, ...NOTHING, isUnreachable: error instanceof TemporalUnreachableError };
  }
}

/** The worker of this machine knows more than Temporal does, such as that its clock is wrong. */
async function examineOwnWorker(
  workers: readonly WorkerIdentity[],
  config: WorkerConfig | undefined,
): Promise<Check[]> {
  const isHere = workers.some(({ host }) => host === hostname());
  if (!isHere || !config?.status || config.status.port === 0) return [];
  const { host, port } = config.status;
  const url = `http://${reachableHost(host)}:${port}/readyz`;
  const response = await fetch(url, { signal: AbortSignal.timeout(OWN_WORKER_TIMEOUT_MS) }).catch(() => undefined);
  const text = (await response?.text().catch(() => undefined))?.trim();
  if (text === undefined || text === 'ready') return [];
  const why = 'the worker of this machine says so';
  return [checked('workers', 'warning', text.replace(/^ready; /, ''), { subject: url, why, fix: `curl ${url}` })];
}

/**
 * Finds what is blocked, and why. Queries no workflow without workers, because each query would wait for its deadline.
 */
async function examineWork({ followUps }: TemporalSession, health: Health, hasWorkers: boolean) {
  const states = Object.entries(health.followUps).flatMap(([state, count]) => (count > 0 ? `${count} ${state}` : []));
  const message = states.join(', ') || 'none is running';
  const checks = [checked('follow-ups', 'ok', message), ...health.troubles.map(checkOfTrouble)];
  const projects = [...health.projects];
  if (!hasWorkers || !health.hasSearchAttributes) return { checks, projects };
  const isKnown = (id: string) => health.troubles.some(({ workflowId }) => workflowId === id);
  const silent = (workflowId: string, reason: string) =>
    checkOfTrouble({ workflowId, what: `does not answer: ${reason}`, fix: 'check the log of the workers' });
  const reasonIn = (error: unknown) => (error instanceof WorkerUnavailableError ? error.reason : String(error));
  for await (const { projectId, workflowId, isNeeded, status, statusUnavailable, ...budget } of followUps.budgets()) {
    if (status) projects.push(projectId);
    if (status) checks.push(...judgeBudget(status));
    if (!isNeeded || isKnown(workflowId)) continue;
    const isSilent = statusUnavailable !== undefined;
    const trouble = isSilent ? await followUps.budget(projectId).trouble() : budget.trouble;
    if (trouble) checks.push(checkOfTrouble(trouble));
    else if (isSilent) checks.push(silent(workflowId, statusUnavailable));
  }
  for (const batch of health.batchIds.map((id) => followUps.batch(id)).filter((each) => !isKnown(each.workflowId))) {
    const status = await batch.status().catch(reasonIn);
    // After one that does not answer, the next would take as long.
    if (typeof status === 'string') return { checks: [...checks, silent(batch.workflowId, status)], projects };
    checks.push(...judgeBatch(status, Date.now()));
  }
  for (const id of health.waiting) {
    const followUp = followUps.handle(id);
    const progress = await followUp.progress().catch(() => undefined);
    if (progress) checks.push(...judgeFollowUp(id, progress, checks));
  }
  return { checks, projects };
}
