import type { Health, LiveProgress } from '../client/index.js';
import { isLoopbackHost, readWorkerIdentity, sharedSettings, type WorkerConfig } from '../config/index.js';
import { type BatchStatus, type BudgetStatus, formatDuration, projectBudgetWorkflowId } from '../contract/index.js';
import { describeFollowUp } from '../follow-up/follow-up-details.js';
import { REFUSALS } from '../protocol/index.js';
import { formatBudgetState } from './budget-commands.js';
import { clock, plain } from './lines.js';
import type { TemporalSession } from './session.js';

/** Result of one check. `subject` is a workflow id, a project or a task queue. A `note` needs no action. */
export interface Check {
  name: string;
  status: 'ok' | 'note' | 'warning' | 'error';
  message: string;
  subject?: string;
  since?: string | undefined;
  why?: string | undefined;
  fix?: string | undefined;
}

export function checked(name: string, status: Check['status'], message: string, details: Partial<Check> = {}): Check {
  return { name, status, message, ...details };
}

/** What bounds sends. */
const BOUNDS = 'FOLLOW_UP_PROJECTS, FOLLOW_UP_SEND_TIMEOUT, FOLLOW_UP_DRAIN, FOLLOW_UP_MARGIN or FOLLOW_UP_BUDGET_…';

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

export function judgeQueue({ taskQueue, type, pollers, setCurrent }: Health['taskQueues'][number]): Check {
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

/**
 * From 1.31.0 to 1.31.2, a server reports a changed version to each inline task:
 * https://github.com/temporalio/temporal/issues/10217.
 */
export function judgeVersioning({ serverVersion, taskQueues }: Pick<Health, 'serverVersion' | 'taskQueues'>): Check[] {
  const [major = 0, minor = 0] = serverVersion.split('.').map(Number);
  const isUsed = taskQueues.some(({ pollers }) => pollers.some(({ isVersioned }) => isVersioned));
  if (!isUsed || major > 1 || minor >= 32) return [];
  const why = 'budgets may continue as new all the time, or stay on a version that is retired';
  const fix = 'upgrade the server, or unset TEMPORAL_DEPLOYMENT_NAME and TEMPORAL_WORKER_BUILD_ID in the workers';
  const message = `Worker Versioning needs server 1.32 or newer; this one is ${serverVersion}`;
  return [checked('workers', 'warning', message, { why, fix })];
}

export type WorkerIdentity = NonNullable<ReturnType<typeof readWorkerIdentity>>;

export function workersOf({ taskQueues }: Health): WorkerIdentity[] {
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

/** Checks a follow-up that waits. What blocks its whole project is found before. */
export function judgeFollowUp(id: string, progress: LiveProgress, found: readonly Check[]): Check[] {
  const { projectId, waitReason, position, lastError } = progress;
  const ofProject = [projectId, projectBudgetWorkflowId(projectId)];
  const isOwn = waitReason === 'service' || waitReason === 'not-served';
  const isFound = !isOwn && found.some(({ subject = '' }) => ofProject.includes(subject));
  const isNormal = waitReason === 'limited' || waitReason === 'queue-full' || waitReason === 'counting';
  if (isFound || isNormal || (waitReason === 'slot' && position !== undefined)) return [];
  const { headline, nextSteps } = describeFollowUp(progress, id, clock, Date.now());
  const what = `${id} is ${plain(headline)}${lastError ? `: ${lastError.message}` : ''}`;
  const details = { subject: id, why: 'its message waits', fix: nextSteps.map(plain).join('; ') };
  return [checked('follow-up', 'warning', what, details)];
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
