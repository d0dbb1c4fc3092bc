import type { Client } from '@temporalio/client';
import type { ListedBudget, ScheduleDescription, WorkflowTrouble } from '../client/index.js';
import { listQuery } from '../client/list.js';
import { callTemporal, listWorkflows } from '../client/temporal.js';
import { fewAtATime } from '../temporal/lookups.js';
import { IS_OPEN } from '../client/trouble.js';
import { defined } from '../contract/defined.js';
import {
  type BatchStatus,
  type BudgetStatus,
  parseFollowUpBatchWorkflowId,
  parseProjectBudgetWorkflowId,
  WorkflowType,
} from '../contract/index.js';
import { type Check, isFinding, messageOf } from './doctor-check.js';
import { clock } from './text.js';
import type { TemporalSession } from './session.js';

/** The checks of budgets, batches, follow-ups and schedules. */
export interface WorkChecks {
  checks: Check[];
  /** Projects with waiting follow-ups, or with sends within their window. */
  projects: string[];
}

/** Most running batches that are queried. */
const MOST_BATCHES = 500;

/**
 * Everything that is blocked or waits for a person.
 *
 * @param hasWorkers without workers, budgets are not queried: each query would wait for its deadline
 */
export async function checkWork(session: TemporalSession, hasWorkers: boolean): Promise<WorkChecks> {
  const [workflows, handOvers, budgets, schedules] = await Promise.all([
    examineWorkflows(session).catch((error: unknown) => ({
      checks: [unseen('workflows', error)],
      troubled: new Set<string>(),
    })),
    hasWorkers ? examineOpenBatches(session).catch((error: unknown) => [unseen('batches', error)]) : [],
    hasWorkers
      ? examineBudgets(session).catch((error: unknown) => ({ checks: [unseen('budgets', error)], projects: [] }))
      : { checks: [notAsked()], projects: [] },
    examineSchedules(session).catch((error: unknown) => [unseen('schedules', error)]),
  ]);
  // The reason why a budget does not answer says more than its silence.
  const { checks, troubled } = workflows;
  const more = budgets.checks.filter(({ name, subject = '' }) => name !== 'silent budget' || !troubled.has(subject));
  return { checks: [...checks, ...handOvers, ...more, ...schedules], projects: budgets.projects };
}

function unseen(name: string, error: unknown): Check {
  return {
    name,
    status: 'error',
    message: messageOf(error),
    why: 'blocked workflows cannot be found',
    fix: 'check the visibility store of Temporal',
  };
}

function notAsked(): Check {
  return { name: 'budgets', status: 'note', message: 'not checked: only a worker can answer' };
}

/** What {@link examineWorkflows} found. */
interface WorkflowChecks {
  checks: Check[];
  /** Ids of all blocked workflows. */
  troubled: ReadonlySet<string>;
}

/** One check per blocked budget, batch, part or follow-up. Those without a worker share one per task queue. */
export async function examineWorkflows({ client, followUps }: TemporalSession): Promise<WorkflowChecks> {
  const { troubles, isPartial } = await followUps.troubles();
  const idle = new Set(
    (await fewAtATime(troubles, async (trouble) => ((await isIdle(client, trouble)) ? [trouble] : []))).flat(),
  );
  const found = [
    ...onePerQueue(troubles.filter((trouble) => !idle.has(trouble))).map(toCheck),
    ...onePerQueue([...idle]).map(toIdleCheck),
  ];
  const seen = isPartial ? 'of those that were looked at, the newest of each kind, ' : '';
  const none: Check = { name: 'workflows', status: 'ok', message: `${seen}no budget, batch or follow-up is blocked` };
  return {
    checks: found.some(isFinding) ? found : [none, ...found],
    troubled: new Set(troubles.map(({ workflowId }) => workflowId)),
  };
}

/** Without workers many workflows are unattended: the first of each task queue stands for all. */
function onePerQueue(troubles: readonly WorkflowTrouble[]): WorkflowTrouble[] {
  const told = new Set<string>();
  return troubles.filter(({ kind, what }) => kind !== 'unattended' || (!told.has(what) && told.add(what)));
}

/** Whether it is a budget without a worker that has nothing to do: no follow-up of its project is open. */
async function isIdle(client: Client, { workflowId, kind }: WorkflowTrouble): Promise<boolean> {
  const projectId = parseProjectBudgetWorkflowId(workflowId);
  if (kind !== 'unattended' || projectId === undefined) return false;
  const query = `${listQuery({ project: projectId })} AND ${IS_OPEN}`;
  return (await callTemporal(client, () => client.workflow.count(query))).count === 0;
}

function toIdleCheck({ workflowId, what }: WorkflowTrouble): Check {
  return {
    name: 'budget',
    subject: workflowId,
    status: 'note',
    message: `${workflowId} ${what}, and no follow-up needs it`,
  };
}

/** If no item is added to a batch for this long, the process that hands it over is gone. */
const HAND_OVER_GONE_MS = 600_000;

/**
 * One finding per batch whose list was not handed over completely, and that waits for the rest with nothing left to
 * do.
 */
export async function examineOpenBatches({ client, followUps }: TemporalSession): Promise<Check[]> {
  const query = `WorkflowType = '${WorkflowType.followUpBatch}' AND ExecutionStatus = 'Running'`;
  const batchIds: string[] = [];
  for await (const { workflowId } of listWorkflows(client, query)) {
    const { batchId, part } = parseFollowUpBatchWorkflowId(workflowId) ?? {};
    if (batchId !== undefined && part === undefined) batchIds.push(batchId);
    if (batchIds.length >= MOST_BATCHES) break;
  }
  const checks = await fewAtATime(batchIds, async (batchId) => {
    // A batch that does not answer is found among the blocked workflows.
    const status = await followUps
      .batch(batchId)
      .status()
      .catch(() => undefined);
    return status ? judgeBatch(status, Date.now()) : [];
  });
  return checks.flat();
}

/** Whether a batch is held, or its hand-over was interrupted. While items are open, more may still come. */
export function judgeBatch(
  { batchId, sealed, ended, total, open, waitingToStart, startedAt, lastEndedAt, hold }: BatchStatus,
  nowMs: number,
): Check[] {
  if (hold) {
    return [
      {
        name: 'batch',
        subject: `${batchId} hold`,
        status: 'warning',
        message: `batch ${batchId} is held (${hold.name}): ${hold.reason}`,
        since: hold.at,
        why: 'its other items are not started',
        fix: `follow-up batch continue ${batchId}, or: follow-up batch cancel ${batchId}`,
      },
    ];
  }
  const since = lastEndedAt ?? startedAt;
  if (sealed || ended || open + waitingToStart > 0 || nowMs - Date.parse(since) < HAND_OVER_GONE_MS) return [];
  return [
    {
      name: 'batch',
      subject: `${batchId} hand-over`,
      status: 'warning',
      message: `batch ${batchId} waits for the rest of its list: its ${total} items have ended, and no more were added`,
      since,
      why: 'the missing items are not sent, and the batch does not end',
      fix: `run the same follow-up batch run again to add the rest, or: follow-up batch cancel ${batchId}`,
    },
  ];
}

function toCheck({ workflowId, what, fix, since }: WorkflowTrouble): Check {
  const projectId = parseProjectBudgetWorkflowId(workflowId);
  const [name, why] =
    projectId !== undefined
      ? ['budget', `no message of project ${projectId} is sent, and its follow-ups wait`]
      : workflowId.startsWith('follow-up-batch/')
        ? ['batch', 'no more of its items are started, and it does not end']
        : ['follow-up', 'it goes no further'];
  const message = `${workflowId} ${what}`;
  return { name, subject: workflowId, status: 'error', message, ...defined({ since }), why, fix };
}

async function examineBudgets({ followUps }: TemporalSession): Promise<WorkChecks> {
  const checks: Check[] = [];
  const projects: string[] = [];
  let count = 0;
  for await (const budget of followUps.budgets()) {
    count++;
    const { status } = budget;
    if (!status || status.waitingTotal + status.unsettled + status.used > 0) projects.push(budget.projectId);
    checks.push(...(status ? judgeBudget(status) : [silentBudget(budget)]));
  }
  if (checks.some(isFinding)) return { checks, projects };
  const message = count === 0 ? 'no project has one yet' : `${count} of ${count} answer`;
  return { checks: [{ name: 'budgets', status: 'ok', message }, ...checks], projects };
}

/** A budget that does not answer. */
export function silentBudget({ projectId, workflowId, statusUnavailable = 'no answer' }: ListedBudget): Check {
  return {
    name: 'silent budget',
    subject: workflowId,
    status: 'error',
    message: `the budget of project ${projectId} does not answer: ${statusUnavailable}`,
    why: `no message of project ${projectId} is sent, and its follow-ups wait`,
    fix: `check the log of the workers, then: follow-up budget show ${projectId}`,
  };
}

/** Findings about a budget that answers; none if it sends normally. */
export function judgeBudget(status: BudgetStatus): Check[] {
  const { projectId, limit, waitingTotal, paused, learnedLimit, isCounting } = status;
  const about = (level: Check['status'], what: string, more: Partial<Check> = {}): Check => ({
    name: 'budget',
    subject: projectId,
    status: level,
    message: `the budget of project ${projectId} ${what}`,
    ...more,
  });
  const waiting = `${waitingTotal} ${waitingTotal === 1 ? 'follow-up waits' : 'follow-ups wait'}`;
  const why = `no message of project ${projectId} is sent; ${waiting}`;
  const since = paused?.since === undefined ? {} : { since: paused.since };
  const until = paused?.until === undefined ? '' : ` until ${clock(paused.until)}`;
  const note = paused?.note ? ` (${paused.note})` : '';
  const isPausedBy = (reason: string) => paused?.reasons.some((given) => given === reason) === true;
  const checks: Check[] = [];
  if (isPausedBy('operator')) {
    checks.push(
      until === ''
        ? about('warning', `is paused by an operator${note}`, {
            ...since,
            why,
            fix: `follow-up budget resume ${projectId}`,
          })
        : about('note', `is paused by an operator${until}${note}; ${waiting}`, since),
    );
  }
  if (isPausedBy('credentials')) {
    checks.push(
      about('error', 'is paused: the service refuses its API key', {
        ...since,
        why,
        fix: `give the workers a valid key for it, then: follow-up budget resume ${projectId}`,
      }),
    );
  }
  if (isPausedBy('payment')) {
    const fix = `pay the service, then: follow-up budget resume ${projectId}`;
    checks.push(about('error', 'is paused: the service asks for payment (402)', { ...since, why, fix }));
  }
  if (isPausedBy('limited')) {
    checks.push(about('note', `is limited by the service, and continues on its own${until}; ${waiting}`, since));
  }
  if (limit === 0) {
    checks.push(
      about('warning', 'has the limit 0', { why, fix: `follow-up budget set ${projectId} --limit <messages>` }),
    );
  }
  if (learnedLimit !== undefined) {
    checks.push(about('note', `sends less than its limit: the service accepts about ${learnedLimit}; ${waiting}`));
  }
  if (isCounting) checks.push(about('note', `counts what was sent before it started; ${waiting}`));
  return checks;
}

async function examineSchedules({ followUps: { schedules } }: TemporalSession): Promise<Check[]> {
  const checks: Check[] = [];
  let count = 0;
  for await (const schedule of schedules.list()) {
    count++;
    checks.push(...judgeSchedule(schedule));
  }
  const message = count === 0 ? 'there is none' : `none of ${count} is paused`;
  return checks.some(isFinding) ? checks : [{ name: 'schedules', status: 'ok', message }, ...checks];
}

/** What the description of a schedule says: that it is paused, and how many of its firings did not start. */
function judgeSchedule({ name, paused, note, counts: { skipped, missed } }: ScheduleDescription): Check[] {
  const checks: Check[] = [];
  if (paused) {
    checks.push({
      name: 'schedule',
      subject: name,
      status: 'warning',
      message: `schedule ${name} is paused (${note})`,
      why: 'it starts no batch until it is resumed',
      fix: `follow-up schedule resume ${name}`,
    });
  }
  if (skipped + missed > 0) {
    const message = `schedule ${name} has left out firings: ${skipped} by its overlap policy, ${missed} in outages of Temporal`;
    checks.push({ name: 'schedule', subject: `${name} firings`, status: 'note', message });
  }
  return checks;
}
