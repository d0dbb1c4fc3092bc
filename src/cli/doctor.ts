import { hostname } from 'node:os';
import { z } from 'zod';
import { createAgentJobsClient, createApiKeys, type GetJobOutcome } from '../agent-jobs/index.js';
import { type Health, InvalidInputError, TemporalUnreachableError, WorkerUnavailableError } from '../client/index.js';
import { messageOf } from '../common/index.js';
import {
  ConfigError,
  describeIgnoredProxies,
  isLoopbackHost,
  loadConfig,
  readWorkerIdentity,
  sharedSettings,
  type WorkerConfig,
} from '../config/index.js';
import { type BatchStatus, type BudgetStatus, formatDuration, idSchema } from '../contract/index.js';
import { safeLine } from '../node/terminal-text.js';
import { REFUSALS } from '../protocol/index.js';
import { formatBudgetState } from './budget-commands.js';
import { type Cli, ExitCode } from './cli.js';
import { clock } from './lines.js';
import { type TemporalSession, withTemporal } from './session.js';

/** Result of one check. `subject` is a workflow id, a project or a task queue. A `note` needs no action. */
interface Check {
  name: string;
  status: 'ok' | 'note' | 'warning' | 'error';
  message: string;
  subject?: string;
  since?: string | undefined;
  why?: string | undefined;
  fix?: string | undefined;
}

function checked(name: string, status: Check['status'], message: string, details: Partial<Check> = {}): Check {
  return { name, status, message, ...details };
}

/** Results from Temporal. `projects` have follow-ups that run or have just ended. */
interface Examined {
  checks: Check[];
  projects: string[];
  hasWorkers: boolean;
  workers: WorkerIdentity[];
  isUnreachable?: boolean;
}

const NOTHING = { projects: [], hasWorkers: false, workers: [] };

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
  const more = [since && `since ${clock(since)}`, why, fix && `-> ${fix}`].filter((line) => line !== undefined);
  const lines = more.map((line) => `${' '.repeat(28)}${safeLine(line)}`);
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

/** What bounds sends. */
const BOUNDS = 'FOLLOW_UP_PROJECTS, FOLLOW_UP_SEND_TIMEOUT, FOLLOW_UP_DRAIN, FOLLOW_UP_MARGIN or FOLLOW_UP_BUDGET_…';
const OWN_WORKER_TIMEOUT_MS = 3_000;

/** Used if no project has work or no job is given. */
const MADE_UP = 'follow-up-doctor';

/** Checks that the agent job service accepts the keys of at most 50 projects with work. The jobs need not exist. */
async function examineService(
  config: WorkerConfig | undefined,
  { project, job = MADE_UP }: { project?: string; job?: string },
  active: readonly string[],
): Promise<Check[]> {
  const name = 'agent job service';
  if (!config) return [checked(name, 'note', 'not checked: its settings are missing or invalid, see above')];
  const { baseUrl, apiKeys, getTimeoutMs, sendTimeoutMs } = config.agentJobs;
  const keys = createApiKeys({ ...apiKeys, key: apiKeys.key?.() });
  const client = createAgentJobsClient({ baseUrl, keys, getTimeoutMs, sendTimeoutMs });
  const served = active.filter((id) => config.projects === '*' || config.projects.includes(id));
  const projects = [...new Set(project === undefined ? served : [project, ...served])].slice(0, 50);
  const asked = projects.length > 0 ? projects : [MADE_UP];
  try {
    const read = async (id: string) => judgeRead(id, await client.getJob({ projectId: id, jobId: job }));
    const failed = (await Promise.all(asked.map(read))).flat();
    const message = `${baseUrl} answers and accepts the API key; projects tried: ${asked.length - failed.length}`;
    return failed.length === asked.length ? failed : [checked(name, 'ok', message), ...failed];
  } finally {
    await client.close();
  }
}

/** Interprets a failed read. A missing job is a normal result. */
function judgeRead(projectId: string, outcome: GetJobOutcome): Check[] {
  if (outcome.kind !== 'failed') return [];
  const { reason, statusCode } = outcome;
  const isAboutKey = reason === 'no-key' || statusCode === 401 || statusCode === 403;
  const isMadeUp = projectId === MADE_UP;
  let fix = 'check AGENT_JOBS_BASE_URL and the network, or ask the operator of the service';
  if (statusCode === 402) fix = REFUSALS.payment.fix;
  if (isAboutKey) fix = 'create a new API key in the dashboard and set it for the workers; check the project id';
  if (reason === 'no-key') fix = 'add a key of the project to AGENT_JOBS_API_KEYS_FILE';
  const hint = isMadeUp && isAboutKey ? '; no project has work: name a real one with --project' : '';
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
    const namespaces = [judgeRetention(session.config, health.retentionMs), attributes];
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
      : 'check TEMPORAL_ADDRESS, TLS settings and credentials; follow-up dev starts a server on this machine';
    const checks = [checked('Temporal', 'error', `${text}${proxies}`, { why, fix })];
    return { checks, ...NOTHING, isUnreachable: error instanceof TemporalUnreachableError };
  }
}

/** Recommends the same as docs/how-to/run-in-production.md. A local development server may keep less. */
export function judgeRetention(
  { namespace, address }: Pick<TemporalSession['config'], 'namespace' | 'address'>,
  ms: number,
): Check {
  const message = `${namespace} keeps ended workflows for ${formatDuration(ms)}`;
  if (ms >= 72 * 3_600_000) return checked('namespace', 'ok', message);
  const why = 'used keys and earlier messages are known only that long; 72 h are recommended';
  if (isLoopbackHost(address.replace(/:\d+$/, ''))) return checked('namespace', 'note', message, { why });
  const fix = `temporal operator namespace update --namespace ${namespace} --retention 72h`;
  return checked('namespace', 'warning', message, { why, fix });
}

function judgeQueue({ taskQueue, type, pollers, setCurrent }: Health['taskQueues'][number]): Check {
  const subject = `${taskQueue} (${type} tasks)`;
  const [first, ...more] = pollers;
  const others = more.length > 0 ? ` and ${more.length} more` : '';
  if (setCurrent !== undefined) {
    const message = `the workers of ${subject} get no tasks: no version of them is the current one`;
    return checked('workers', 'error', message, { subject, why: 'follow-ups wait until one is', fix: setCurrent });
  }
  if (first) return checked('workers', 'ok', `${subject} is polled by ${first.identity}${others}`, { subject });
  const why = 'follow-ups wait until a worker polls; FOLLOW_UP_TASK_QUEUE must be the same here and in the workers';
  return checked('workers', 'error', `no worker polls ${subject}`, { subject, why, fix: 'follow-up worker' });
}

type WorkerIdentity = NonNullable<ReturnType<typeof readWorkerIdentity>>;

function workersOf({ taskQueues }: Health): WorkerIdentity[] {
  const identities = new Set(taskQueues.flatMap(({ pollers }) => pollers.map(({ identity }) => identity)));
  return [...identities].flatMap((identity) => readWorkerIdentity(identity) ?? []);
}

/** Compares what all workers of a task queue must share, and their service with that of this environment. */
export function judgeAgreement(workers: readonly WorkerIdentity[], config?: WorkerConfig): Check[] {
  type Shared = Pick<WorkerIdentity, 'name' | 'address' | 'bounds'>;
  const compare = (
    status: Check['status'],
    by: 'address' | 'bounds',
    why: string,
    all: readonly Shared[] = workers,
  ) => {
    const groups = new Map(all.map((each) => [each[by], all.filter((other) => other[by] === each[by])]));
    if (groups.size < 2) return [];
    const setting = by === 'address' ? 'AGENT_JOBS_BASE_URL' : BOUNDS;
    const names = [...groups.values()].map((group) => group.map(({ name }) => name).join(', ')).join(' | ');
    const fix = `set ${setting} alike for all of them, and restart those that change`;
    return [checked('workers', status, `${setting} differs: ${names}`, { why, fix })];
  };
  const services = compare('error', 'address', 'follow-ups of one task queue go to different services');
  const [first] = workers;
  const here = config && first ? [first, { name: 'this environment', ...sharedSettings(config) }] : [];
  return [
    ...(services.length > 0 ? services : compare('note', 'address', 'what follows is about another service', here)),
    ...compare('warning', 'bounds', 'what becomes of a follow-up depends on the worker that gets it'),
  ];
}

/** The worker of this machine knows more than Temporal does, such as that its clock is wrong. */
async function examineOwnWorker(
  workers: readonly WorkerIdentity[],
  config: WorkerConfig | undefined,
): Promise<Check[]> {
  const isHere = workers.some(({ host }) => host === hostname());
  if (!isHere || !config?.status || config.status.port === 0) return [];
  const { host, port } = config.status;
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${port}/readyz`;
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
  const projects: string[] = [];
  if (!hasWorkers || !health.hasSearchAttributes) return { checks, projects };
  const isKnown = (id: string) => health.troubles.some(({ workflowId }) => workflowId === id);
  const silent = (workflowId: string, reason: string) =>
    checkOfTrouble({ workflowId, what: `does not answer: ${reason}`, fix: 'check the log of the workers' });
  const reasonIn = (error: unknown) => (error instanceof WorkerUnavailableError ? error.reason : String(error));
  for await (const { projectId, workflowId, isNeeded, status, statusUnavailable } of followUps.budgets()) {
    if (status || isNeeded) projects.push(projectId);
    if (status) checks.push(...judgeBudget(status));
    if (!isNeeded || statusUnavailable === undefined || isKnown(workflowId)) continue;
    const trouble = await followUps.budget(projectId).trouble();
    checks.push(trouble ? checkOfTrouble(trouble) : silent(workflowId, statusUnavailable));
  }
  for (const batch of health.batchIds.map((id) => followUps.batch(id)).filter((each) => !isKnown(each.workflowId))) {
    const status = await batch.status().catch(reasonIn);
    // After one that does not answer, the next would take as long.
    if (typeof status === 'string') return { checks: [...checks, silent(batch.workflowId, status)], projects };
    checks.push(...judgeBatch(status, Date.now()));
  }
  for (const id of health.blocked) {
    const followUp = followUps.handle(id);
    const progress = await followUp.progress().catch(() => undefined);
    // The other reasons block a whole project, and are found above.
    if (progress?.waitReason !== 'service') continue;
    const what = `${id} cannot read its job: ${progress.lastError?.message ?? ''}`;
    const details = { subject: id, why: 'its message waits', fix: 'fix the service; it continues automatically' };
    checks.push(checked('follow-up', 'warning', what, details));
  }
  return { checks, projects };
}

/** What is known of a workflow that needs help. */
export function checkOfTrouble({ workflowId, what, fix, since }: Omit<Health['troubles'][number], 'kind'>): Check {
  const [name = 'workflow'] = /^[a-z-]*?(budget|webhook|batch|^follow-up)(?=\/)/.exec(workflowId)?.slice(1) ?? [];
  const isWebhook = name === 'webhook';
  const why = isWebhook ? 'its receiver does not get it' : 'it is blocked, and so is everything that depends on it';
  const details = { subject: workflowId, since, why, fix };
  return checked(name, 'error', `${workflowId} ${what}`, details);
}

/** Returns no check if the budget sends normally. */
export function judgeBudget(status: BudgetStatus): Check[] {
  const { projectId, limit, used, paused, waitingTotal, isCounting, spacingMs } = status;
  if (!paused && limit > 0 && used <= limit && !isCounting && spacingMs === undefined) return [];
  const state = formatBudgetState(status);
  const reasons = paused?.reasons ?? [];
  const resume = `follow-up budget resume ${projectId}`;
  let fix = limit === 0 ? `follow-up budget set ${projectId} --limit <messages>` : undefined;
  if (reasons.includes('operator') && paused?.until === undefined) fix = resume;
  for (const reason of ['credentials', 'payment', 'outage'] as const)
    if (reasons.includes(reason)) fix = `${REFUSALS[reason].fix}; to try at once: ${resume}`;
  const what = `the budget of project ${projectId} ${paused ? 'is ' : ''}${state}; waiting follow-ups: ${waitingTotal}`;
  const why = fix && `no message of project ${projectId} is sent`;
  return [checked('budget', fix ? 'warning' : 'note', what, { subject: projectId, since: paused?.since, why, fix })];
}

/** After this time without a new item, the process that adds them no longer runs. */
const HAND_OVER_GONE_MS = 600_000;

/** Checks whether a batch is held or incomplete. While items are open, more may still come. */
export function judgeBatch(status: BatchStatus, nowMs: number): Check[] {
  const { batchId, sealed, ended, total, open, waitingToStart, startedAt, lastEndedAt, hold } = status;
  const since = hold?.at ?? lastEndedAt ?? startedAt;
  const isLeft = !sealed && !ended && open + waitingToStart === 0 && nowMs - Date.parse(since) >= HAND_OVER_GONE_MS;
  if (!hold && !isLeft) return [];
  const what = hold
    ? `is held (${hold.name}): ${hold.reason}`
    : `waits for the rest of its list: its ${total} items have ended, and no others were added`;
  const step = hold ? `follow-up batch continue ${batchId}` : 'run the same follow-up batch run again to add the rest';
  const details = { why: 'its remaining items are not sent', fix: `${step}, or: follow-up batch cancel ${batchId}` };
  return [checked('batch', 'warning', `batch ${batchId} ${what}`, { subject: batchId, since, ...details })];
}
