import type { Client, WorkflowExecutionDescription } from '@temporalio/client';
import { NamespaceNotFoundError, type Timestamp } from '@temporalio/common';
import {
  budgetTaskQueue,
  DEFAULT_TASK_QUEUE,
  type OpenState,
  openStates,
  parseFollowUpBatchWorkflowId,
  parseProjectBudgetWorkflowId,
  SearchAttribute,
  WorkflowIdPrefix,
  WorkflowType,
} from '../contract/index.js';
import { webhookResetCommand } from '../protocol/index.js';
import { GrpcStatus, grpcStatusOf, timestampMs } from '../temporal/grpc.js';
import { describeIfKnown, failureMessage, fewAtATime, IS_OPEN } from '../temporal/lookups.js';
import { QUERY_OF_ALL } from '../temporal/search-attributes.js';
import {
  polledQueues,
  type QueueType,
  readTaskQueue,
  stillPolls,
  type TaskQueueState,
} from '../temporal/task-queues.js';
import { RefusedError } from './client-errors.js';
import {
  callTemporal,
  DEFAULT_CALL_TIMEOUT_MS,
  describeEnd,
  findProjects,
  listIds,
  toClientError,
  toExecutionStatus,
} from './temporal.js';

/** From this attempt on, a workflow task is failing rather than moving to another worker. */
const FAILING_FROM_ATTEMPT = 3;
/** A task that waits longer has no worker. */
const UNATTENDED_AFTER_MS = 15_000;
/** Most follow-ups of a kind that are examined individually. */
const MAX_NAMED = 10;
/** Newer servers set it while a workflow's tasks fail. Older ones refuse a query with it. */
const FAILS = 'TemporalReportedProblems IS NOT NULL';
const ANY_TYPE = Object.values(WorkflowType).map((type) => `'${type}'`);
/** Workflows that the server shows as paused, with a paused activity, or failing. */
const BLOCKED_QUERIES = ['TemporalPauseInfo IS NOT NULL', FAILS].map(
  (condition) => `WorkflowType IN (${ANY_TYPE.join(', ')}) AND ${condition}`,
);
/** Webhooks that were given up; a later run may be open. */
const FAILED_WEBHOOKS = `WorkflowType = '${WorkflowType.followUpWebhook}' AND ExecutionStatus = 'Failed'`;
/** Follow-ups that wait for their budget. They ask it again within hours. */
const WAITS = `WorkflowType = '${WorkflowType.followUp}' AND ${SearchAttribute.state.name} IN ('waiting-for-budget', 'waiting-for-job') AND ${IS_OPEN}`;
/** Closed budgets; a later run may be open. */
const CLOSED_BUDGETS = `WorkflowType = '${WorkflowType.projectBudget}' AND ExecutionStatus IN ('Terminated', 'Failed', 'Canceled', 'TimedOut', 'Completed')`;

/**
 * What blocks a workflow, by Temporal's own records.
 *
 * - `paused`: it is paused in Temporal.
 * - `activityPaused`: its activity is paused in Temporal.
 * - `failing`: its workflow tasks fail, and are retried.
 * - `unattended`: no worker polls its task queue.
 * - `closed`: only for a budget: it was terminated, or ended in another way.
 * - `missing`: only for a budget: it was deleted while follow-ups wait.
 * - `undelivered`: only for a webhook: its receiver has not accepted it within 3 days, or accepts no more.
 */
export interface WorkflowTrouble {
  workflowId: string;
  kind: 'paused' | 'activityPaused' | 'failing' | 'unattended' | 'closed' | 'missing' | 'undelivered';
  /** Its start, ISO 8601 in UTC, if Temporal knows it. */
  since?: string;
  /** Description such as `is paused in Temporal`. */
  what: string;
  /** The command or step that fixes it. */
  fix: string;
}

/** The state of the server, and what is blocked. Needs no worker. */
export interface Health {
  serverVersion: string;
  /** How long Temporal keeps ended workflows. */
  retentionMs: number;
  /** Without the search attributes no follow-up starts, and the fields below `taskQueues` are empty. */
  hasSearchAttributes: boolean;
  taskQueues: ({ taskQueue: string; type: QueueType } & TaskQueueState)[];
  /** Number of running follow-ups in each state; `starting`: no worker has picked them up yet. */
  followUps: Partial<Record<OpenState | 'starting', number>>;
  /** Projects with a running follow-up. */
  projects: string[];
  /** Workflow ids of the newest follow-ups that are blocked, and that wait for a slot, at most 10 each. */
  waiting: string[];
  /** Ids of the newest running batches, at most 500. */
  batchIds: string[];
  troubles: WorkflowTrouble[];
}

/** See `FollowUpClient.health`. */
export async function readHealth(client: Client, taskQueue: string): Promise<Health> {
  const { workflowService: service, options } = client;
  const { namespace } = options;
  const { serverVersion } = await callTemporal(client, () => service.getSystemInfo({}));
  const { config } = await callTemporal(client, () => service.describeNamespace({ namespace })).catch(
    (error: unknown) => {
      if (grpcStatusOf(error) !== GrpcStatus.NOT_FOUND) throw error;
      throw toClientError(client, new NamespaceNotFoundError(namespace));
    },
  );
  const taskQueues = await Promise.all(
    polledQueues(taskQueue).map(async ([name, type]) => ({
      ...{ taskQueue: name, type },
      ...(await taskQueueOf(client, name, type)),
    })),
  );
  const server = {
    serverVersion,
    retentionMs: (config?.workflowExecutionRetentionTtl?.seconds?.toNumber() ?? 0) * 1_000,
    taskQueues,
  };
  try {
    await listIds(client, QUERY_OF_ALL, 1);
  } catch (error) {
    if (!RefusedError.is(error, 'SearchAttributesMissing')) throw error;
    const nothing = { followUps: {}, projects: [], waiting: [], batchIds: [], troubles: [] };
    return { ...server, hasSearchAttributes: false, ...nothing };
  }
  const running = (state: string) =>
    `WorkflowType = '${WorkflowType.followUp}' AND ${SearchAttribute.state.name} ${state} AND ${IS_OPEN}`;
  const queries = new Map<OpenState | 'starting', string>([
    ['starting', running('IS NULL')],
    ...openStates.map((state) => [state, running(`= '${state}'`)] as const),
  ]);
  const [counts, projects, blocked, waiting, batches, troubles] = await Promise.all([
    Promise.all([...queries.values()].map((query) => callTemporal(client, () => client.workflow.count(query)))),
    findProjects(client, IS_OPEN),
    listIds(client, running(`= 'blocked'`), MAX_NAMED),
    listIds(client, running(`= 'waiting-for-budget'`), MAX_NAMED),
    listIds(client, `WorkflowType = '${WorkflowType.followUpBatch}' AND ${IS_OPEN}`),
    findTroubles(
      client,
      [CLOSED_BUDGETS, FAILED_WEBHOOKS, ...BLOCKED_QUERIES],
      listIds(client, running('IS NULL'), MAX_NAMED),
    ),
  ]);
  return {
    ...server,
    hasSearchAttributes: true,
    followUps: Object.fromEntries([...queries.keys()].map((state, index) => [state, counts[index]?.count ?? 0])),
    projects: [...projects],
    waiting: [...blocked, ...waiting],
    batchIds: batches.flatMap((workflowId) => parseFollowUpBatchWorkflowId(workflowId)?.batchId ?? []),
    troubles,
  };
}

/**
 * What blocks a workflow; `undefined` if nothing does, or nothing needs it.
 *
 * @throws TemporalUnreachableError
 */
export async function readTrouble(
  client: Client,
  workflowId: string,
  stateOf = taskQueueReader(client),
): Promise<WorkflowTrouble | undefined> {
  const description = await callTemporal(client, () => describeIfKnown(client, workflowId), { workflowId });
  return description ? troubleOf(client, description, stateOf) : missingBudget(client, workflowId);
}

/** Temporal's list may lag behind a follow-up that has just started. */
async function missingBudget(client: Client, workflowId: string): Promise<WorkflowTrouble | undefined> {
  const projectId = parseProjectBudgetWorkflowId(workflowId);
  if (projectId === undefined) return undefined;
  const before = new Date(Date.now() - UNATTENDED_AFTER_MS).toISOString();
  const query = `${WAITS} AND ${SearchAttribute.projectId.name} = '${projectId}' AND StartTime < '${before}'`;
  const [waiting] = await listIds(client, query, 1);
  const what = 'does not exist, although follow-ups wait for it';
  return waiting === undefined
    ? undefined
    : { workflowId, kind: 'missing', what, fix: `follow-up poll-now ${waiting}` };
}

type TaskQueueReader = (taskQueue: string) => Promise<TaskQueueState>;

/** Reads each task queue once, because many workflows share one. */
function taskQueueReader(client: Client): TaskQueueReader {
  const found = new Map<string, Promise<TaskQueueState>>();
  return (taskQueue) => {
    const state = found.get(taskQueue) ?? taskQueueOf(client, taskQueue, 'workflow');
    found.set(taskQueue, state);
    return state;
  };
}

/**
 * What blocks a batch or its parts.
 *
 * @throws TemporalUnreachableError
 */
export async function findTroublesOfBatch(client: Client, batchId: string): Promise<WorkflowTrouble[]> {
  return findTroubles(
    client,
    BLOCKED_QUERIES.map((query) => `${SearchAttribute.batchId.name} = '${batchId}' AND ${query}`),
  );
}

async function findTroubles(
  client: Client,
  queries: readonly string[],
  more: Promise<string[]> | string[] = [],
): Promise<WorkflowTrouble[]> {
  const lists = await Promise.all([
    ...queries.map((query) =>
      listIds(client, query).catch((error: unknown) => {
        if (query.includes(FAILS) && RefusedError.is(error, 'SearchAttributesMissing')) return [];
        throw error;
      }),
    ),
    more,
  ]);
  const stateOf = taskQueueReader(client);
  const found = await fewAtATime([...new Set(lists.flat())], (id) => readTrouble(client, id, stateOf));
  return found.filter((trouble) => trouble !== undefined);
}

async function troubleOf(
  client: Client,
  { workflowId, raw, status, taskQueue }: WorkflowExecutionDescription,
  stateOf: TaskQueueReader,
): Promise<WorkflowTrouble | undefined> {
  const trouble = (kind: WorkflowTrouble['kind'], what: string, fix: string, since?: Timestamp | null) => ({
    ...{ workflowId, kind, what: oneLine(what), fix },
    ...(since && { since: new Date(timestampMs(since)).toISOString() }),
  });
  const projectId = parseProjectBudgetWorkflowId(workflowId);
  const restore = `follow-up budget restore ${projectId ?? ''}`;
  if (toExecutionStatus(status.name) !== 'running') {
    if (status.name === 'FAILED' && workflowId.startsWith(WorkflowIdPrefix.followUpWebhook)) {
      const reset = webhookResetCommand(workflowId, !!raw.workflowExecutionInfo?.versioningInfo?.deploymentVersion);
      const reason = await readFailure(client, workflowId);
      return trouble('undelivered', `was not delivered: ${reason}`, reset, raw.workflowExecutionInfo?.closeTime);
    }
    if (projectId === undefined) return undefined;
    const what = `is stopped: it ${describeEnd(toExecutionStatus(status.name))}`;
    return trouble('closed', what, restore, raw.workflowExecutionInfo?.closeTime);
  }
  const { pauseInfo } = raw.workflowExtendedInfo ?? {};
  if (status.name === 'PAUSED' || pauseInfo) {
    const { identity, reason, pausedTime } = pauseInfo ?? {};
    const what = `is paused in Temporal${identity ? ` by ${identity}` : ''}${reason ? ` (${reason})` : ''}`;
    return trouble('paused', what, `temporal workflow unpause --workflow-id ${workflowId}`, pausedTime);
  }
  const task = raw.pendingWorkflowTask;
  if (task && (task.attempt ?? 0) >= FAILING_FROM_ATTEMPT) {
    const reason = await readTaskFailure(client, workflowId);
    // A history that contradicts the workflow may do so from any earlier task on.
    const point = reason?.includes(CONTRADICTION) ? 'FirstWorkflowTask' : 'LastWorkflowTask';
    // A reset applies the signals again that came since, also the one that no worker can read.
    const without = reason?.includes('Unknown encoding') ? '--reapply-exclude Signal ' : '';
    const reset = `temporal workflow reset --type ${point} ${without}--workflow-id ${workflowId} --reason failing`;
    const what = `does not continue, because its workflow tasks fail (attempt ${task.attempt}): ${reason ?? ''}`;
    const fix = projectId === undefined ? reset : restore;
    if (reason !== undefined) return trouble('failing', what, fix, task.originalScheduledTime);
  }
  const waitsSince = task?.startedTime ? undefined : task?.scheduledTime;
  const isLeft = waitsSince && Date.now() - timestampMs(waitsSince) > UNATTENDED_AFTER_MS;
  const { pollers, setCurrent } = await stateOf(taskQueue);
  if (setCurrent !== undefined) {
    const what = `has no worker: no version of the workers of ${taskQueue} is the current one`;
    return trouble('unattended', what, setCurrent, waitsSince);
  }
  if (isLeft || pollers.length === 0) {
    const what = `has no worker: no worker polls ${taskQueue}`;
    const base = taskQueue.replace(/-budget$/, '');
    const setting = base === DEFAULT_TASK_QUEUE ? '' : `FOLLOW_UP_TASK_QUEUE=${base} `;
    return trouble('unattended', what, `start a worker: ${setting}follow-up worker`, waitsSince);
  }
  const pausedActivity = raw.pendingActivities?.find(({ paused }) => paused);
  if (!pausedActivity) return undefined;
  const { activityType, activityId, pauseInfo: pause } = pausedActivity;
  const unpause = `temporal activity unpause --workflow-id ${workflowId} --activity-id ${activityId ?? ''}`;
  const what = `is blocked: its activity ${activityType?.name ?? ''} is paused in Temporal`;
  return trouble('activityPaused', what, unpause, pause?.pauseTime);
}

/** The SDK's code for a history that contradicts the workflow's code. */
const CONTRADICTION = 'TMPRL1100';

/** The end of the latest workflow task is among the newest events. */
const NEWEST_EVENTS = 10;

/** Why the latest workflow task failed; `undefined` if it was lost with its worker instead. */
async function readTaskFailure(client: Client, workflowId: string): Promise<string | undefined> {
  const end = (await newestEvents(client, workflowId)).find(
    (event) =>
      event.workflowTaskFailedEventAttributes ??
      event.workflowTaskCompletedEventAttributes ??
      event.workflowTaskTimedOutEventAttributes,
  );
  const failed = end?.workflowTaskFailedEventAttributes;
  return failed ? ((await failureMessage(client, workflowId, failed.failure)) ?? 'no message') : undefined;
}

/** Why a workflow failed. */
async function readFailure(client: Client, workflowId: string): Promise<string> {
  const [end] = await newestEvents(client, workflowId);
  const failed = end?.workflowExecutionFailedEventAttributes?.failure;
  return (await failureMessage(client, workflowId, failed)) ?? 'no message';
}

async function newestEvents(client: Client, workflowId: string) {
  const { namespace } = client.options;
  const request = { namespace, execution: { workflowId }, maximumPageSize: NEWEST_EVENTS };
  const { history } = await callTemporal(client, () =>
    client.workflowService.getWorkflowExecutionHistoryReverse(request),
  );
  return history?.events ?? [];
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim().slice(0, 300);
}

const POLLERS_TIMEOUT_MS = 1_000;

/** See `FollowUpClient.idleTaskQueue`. */
export async function findIdleTaskQueue(client: Client, taskQueue: string): Promise<string | undefined> {
  const queues = [taskQueue, budgetTaskQueue(taskQueue)];
  const read = (name: string) => taskQueueOf(client, name, 'workflow', POLLERS_TIMEOUT_MS);
  const states = await Promise.all(queues.map(read));
  return queues.find((_, index) => states[index]?.pollers.length === 0 || states[index]?.setCurrent !== undefined);
}

/** @throws TemporalUnreachableError */
async function taskQueueOf(
  client: Client,
  name: string,
  type: QueueType,
  timeoutMs: number = DEFAULT_CALL_TIMEOUT_MS,
): Promise<TaskQueueState> {
  const { connection, options } = client;
  const read = () => readTaskQueue(connection, options.namespace, name, type);
  const state = await callTemporal(client, read, {}, timeoutMs);
  return { ...state, pollers: state.pollers.filter((poller) => stillPolls(poller)) };
}
