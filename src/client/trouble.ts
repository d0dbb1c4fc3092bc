import { type Client, QueryNotRegisteredError, type WorkflowExecutionDescription } from '@temporalio/client';
import { type QueryDefinition, type Timestamp, WorkflowNotFoundError } from '@temporalio/common';
import { parseProjectBudgetWorkflowId, SearchAttribute, WorkflowType } from '../contract/index.js';
import { describeGrpcError, grpcStatusOf, isPassingTrouble } from '../temporal/grpc.js';
import { RefusedError, WorkerUnavailableError } from './errors.js';
import { type HistoryEvent, readHistory } from './history.js';
import { callTemporal, DEFAULT_CALL_TIMEOUT_MS, isCutOff, timestampMs, toExecutionStatus } from './temporal.js';
import { describeIfKnown, fewAtATime } from '../temporal/lookups.js';

/** From this attempt on a workflow task is failing, and not just moving to another worker. */
const FAILING_FROM_ATTEMPT = 3;
/** After this wait a task has no worker. */
const UNATTENDED_AFTER_MS = 15_000;
/** Of `PendingActivityState` of Temporal's API. */
const PAUSED_STATES = [4, 5];
/** The failure of a task is among the newest events. */
const NEWEST_EVENTS = 10;
/** Most workflows of one kind that are examined. */
const MOST_LOOKED_AT = 500;
/** The server sets it while a workflow or one of its activities is paused. */
const HAS_PAUSE = 'TemporalPauseInfo IS NOT NULL';
/** Newer servers set it while the tasks of a workflow fail. Older ones refuse a query with it. */
const FAILS = 'TemporalReportedProblems IS NOT NULL';
/** Running or paused: servers before 1.30 do not know the latter by its name. */
export const IS_OPEN = ['ContinuedAsNew', 'Completed', 'Terminated', 'Failed', 'Canceled', 'TimedOut']
  .map((status) => `ExecutionStatus != '${status}'`)
  .join(' AND ');

/** Finds open batches and parts, and follow-ups that the server knows to be blocked. */
const OPEN_BUT_BUDGETS = [
  `WorkflowType = '${WorkflowType.followUpBatch}'`,
  `WorkflowType = '${WorkflowType.followUpBatchPart}'`,
  `WorkflowType = '${WorkflowType.followUp}' AND ${HAS_PAUSE}`,
  `WorkflowType = '${WorkflowType.followUp}' AND ${FAILS}`,
].map((query) => `${query} AND ${IS_OPEN}`);

/**
 * Something that blocks a workflow, as Temporal itself sees it.
 *
 * - `paused`: somebody paused it in Temporal.
 * - `activityPaused`: somebody paused its activity in Temporal.
 * - `failing`: its workflow tasks fail, and are tried again.
 * - `unattended`: no worker polls its task queue.
 * - `closed`: only for a budget: it was terminated, or ended in another way.
 */
export interface WorkflowTrouble {
  workflowId: string;
  kind: 'paused' | 'activityPaused' | 'failing' | 'unattended' | 'closed';
  /** Since when, ISO 8601 in UTC, if Temporal knows. */
  since?: string;
  /** What it is, such as `is paused in Temporal`. */
  what: string;
  /** The command or step that fixes it. */
  fix: string;
}

/** Whether a worker polls a task queue, by its name: asked once for many workflows. */
type Polled = Map<string, Promise<boolean>>;

/** What {@link findTroubles} found. */
export interface FoundTroubles {
  troubles: WorkflowTrouble[];
  /** There were more workflows of a kind than were examined. */
  isPartial: boolean;
}

/**
 * What blocks a workflow; `undefined` if nothing does, or if there is no such workflow.
 *
 * @throws TemporalUnreachableError
 */
export async function readTrouble(
  client: Client,
  workflowId: string,
  polled: Polled = new Map(),
): Promise<WorkflowTrouble | undefined> {
  const description = await callTemporal(client, () => describeIfKnown(client, workflowId), { workflowId });
  return description && troubleOf(client, description, polled);
}

/**
 * Every budget that is closed, paused, failing or without a worker, every batch and part that is paused, failing or
 * without a worker, and every follow-up that is paused, or whose activity is, or that fails, as far as the server lists
 * those.
 *
 * @throws TemporalUnreachableError
 */
export async function findTroubles(client: Client): Promise<FoundTroubles> {
  return findAmong(client, [
    `WorkflowType = '${WorkflowType.projectBudget}' AND ExecutionStatus != 'ContinuedAsNew'`,
    ...OPEN_BUT_BUDGETS,
  ]);
}

/**
 * What blocks a batch or its parts.
 *
 * @throws TemporalUnreachableError
 */
export async function findTroublesOfBatch(client: Client, batchId: string): Promise<WorkflowTrouble[]> {
  const isOfBatch = `${SearchAttribute.batchId.name} = '${batchId}'`;
  const queries = OPEN_BUT_BUDGETS.map((query) => `${isOfBatch} AND ${query}`);
  const { troubles } = await findAmong(client, queries);
  return troubles;
}

async function findAmong(client: Client, queries: readonly string[]): Promise<FoundTroubles> {
  const found: FoundTroubles = { troubles: [], isPartial: false };
  const polled: Polled = new Map();
  const seen = new Set<string>();
  for (const query of queries) {
    const { workflowIds, isPartial } = await listIds(client, query);
    found.isPartial ||= isPartial;
    const unseen = workflowIds.filter((workflowId) => !seen.has(workflowId));
    for (const workflowId of unseen) seen.add(workflowId);
    const troubles = await fewAtATime(unseen, (workflowId) => readTrouble(client, workflowId, polled));
    found.troubles.push(...troubles.filter((trouble) => trouble !== undefined));
  }
  return found;
}

async function listIds(client: Client, query: string): Promise<{ workflowIds: string[]; isPartial: boolean }> {
  const workflowIds = new Set<string>();
  const list = client.workflow.list({ query })[Symbol.asyncIterator]();
  for (;;) {
    const next = await callTemporal(client, () => list.next()).catch((error: unknown) => {
      if (query.includes(FAILS) && RefusedError.is(error, 'SearchAttributesMissing')) return { done: true } as const;
      throw error;
    });
    if (next.done) return { workflowIds: [...workflowIds], isPartial: false };
    if (workflowIds.size >= MOST_LOOKED_AT) return { workflowIds: [...workflowIds], isPartial: true };
    workflowIds.add(next.value.workflowId);
  }
}

/** Like {@link readTrouble}, for a workflow that is already described. */
async function troubleOf(
  client: Client,
  description: WorkflowExecutionDescription,
  polled: Polled,
): Promise<WorkflowTrouble | undefined> {
  const { workflowId, raw, status, taskQueue, closeTime } = description;
  const trouble = (kind: WorkflowTrouble['kind'], what: string, fix: string, since?: Timestamp | null) => ({
    workflowId,
    kind,
    ...(since && { since: new Date(timestampMs(since)).toISOString() }),
    what,
    fix,
  });
  const projectId = parseProjectBudgetWorkflowId(workflowId);
  if (toExecutionStatus(status.name) !== 'running') {
    if (projectId === undefined) return undefined;
    const at = closeTime ? ` ${isoSecond(closeTime.getTime())}` : '';
    const what = `is stopped: it was ${status.name.toLowerCase()}${at}`;
    return trouble('closed', what, restoreCommand(projectId), raw.workflowExecutionInfo?.closeTime);
  }
  const { pauseInfo } = raw.workflowExtendedInfo ?? {};
  if (status.name === 'PAUSED' || pauseInfo) {
    return trouble(
      'paused',
      `is paused in Temporal${wordsOf(pauseInfo)}`,
      `temporal workflow unpause --workflow-id ${workflowId}`,
      pauseInfo?.pausedTime,
    );
  }
  const task = raw.pendingWorkflowTask;
  if (task && (task.attempt ?? 0) >= FAILING_FROM_ATTEMPT) {
    const failure = await readTaskFailure(client, workflowId);
    if (failure !== undefined) {
      const fix = projectId === undefined ? await fixOf(client, description, failure) : restoreCommand(projectId);
      return trouble(
        'failing',
        `fails at its tasks (attempt ${task.attempt}): ${failure.reason}`,
        fix,
        task.originalScheduledTime,
      );
    }
  }
  const waitsSince = task?.startedTime ? undefined : task?.scheduledTime;
  const isLeft =
    waitsSince !== undefined && waitsSince !== null && Date.now() - timestampMs(waitsSince) > UNATTENDED_AFTER_MS;
  if (isLeft || !(await isPolled(client, taskQueue, polled))) {
    return trouble(
      'unattended',
      `has no worker: nobody polls ${taskQueue}`,
      'start a worker: follow-up worker',
      waitsSince,
    );
  }
  const paused = raw.pendingActivities?.find(
    ({ state, paused: isPaused }) => isPaused || PAUSED_STATES.includes(Number(state)),
  );
  if (!paused) return undefined;
  return trouble(
    'activityPaused',
    `is held up: its activity ${paused.activityType?.name ?? ''} is paused in Temporal`,
    `temporal activity unpause --workflow-id ${workflowId} --activity-id ${paused.activityId ?? ''}`,
    paused.pauseInfo?.pauseTime,
  );
}

/** Why the latest workflow task failed. */
interface TaskFailure {
  reason: string;
  /** Somebody paused the workflow while a task waited for a worker. */
  isByPause: boolean;
}

/** `undefined` if the latest workflow task did not fail but was lost with its worker. */
async function readTaskFailure(client: Client, workflowId: string): Promise<TaskFailure | undefined> {
  const { history } = await callTemporal(client, () =>
    client.workflowService.getWorkflowExecutionHistoryReverse({
      namespace: client.options.namespace,
      execution: { workflowId },
      maximumPageSize: NEWEST_EVENTS,
    }),
  );
  const events = history?.events ?? [];
  // From the latest end of a task that was not a failure.
  const lastEnd = events.findIndex(
    (event) => event.workflowTaskCompletedEventAttributes ?? event.workflowTaskTimedOutEventAttributes,
  );
  const since = events.slice(0, lastEnd === -1 ? undefined : lastEnd);
  const failed = since.map((event) => event.workflowTaskFailedEventAttributes).find(Boolean);
  if (!failed) return undefined;
  if (since.some(isPausedInTask)) {
    return { reason: 'it was paused in Temporal while a task waited for a worker', isByPause: true };
  }
  return { reason: oneLine(failed.failure?.message ?? 'without a word'), isByPause: false };
}

/** How to fix a workflow, other than a budget, that fails at its tasks. */
async function fixOf(
  client: Client,
  { workflowId, runId, type }: Pick<WorkflowExecutionDescription, 'workflowId' | 'runId' | 'type'>,
  { isByPause }: TaskFailure,
): Promise<string> {
  const reset = `temporal workflow reset --type LastWorkflowTask --workflow-id ${workflowId} --reason failing`;
  if (!isByPause) return `check the log of the workers; if they run the right version: ${reset}`;
  // Only a completed task can be reset to.
  const events = await readHistory(client, workflowId, runId);
  if (events.some((event) => event.workflowTaskCompletedEventAttributes)) return reset;
  return `temporal workflow terminate --workflow-id ${workflowId}; ${startAgain(type)}`;
}

function startAgain(type: string): string {
  if (type === WorkflowType.followUpBatchPart) return 'its batch then starts it again';
  return type === WorkflowType.followUpBatch ? 'then start it with a new batch id' : 'then start it with a new key';
}

/** `WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_PAUSE_REQUESTED_BEFORE_TASK_STARTED` of Temporal's API. */
const PAUSED_BEFORE_TASK = 39;

/** Whether an event is the end of a task that a pause took from the queue. SDK 1.24 can't read a history with one. */
export function isPausedInTask({ workflowTaskFailedEventAttributes }: HistoryEvent): boolean {
  return Number(workflowTaskFailedEventAttributes?.cause) === PAUSED_BEFORE_TASK;
}

/** Whether a worker polls a task queue for workflow tasks, or did in the last minutes. */
export async function isPolled(client: Client, name: string, polled: Polled = new Map()): Promise<boolean> {
  const asked = polled.get(name) ?? readPollers(client, name, 'workflow').then((pollers) => pollers.length > 0);
  polled.set(name, asked);
  return asked;
}

/** Why a workflow is blocked and how to fix it: the text after its name and a colon. */
export function reasonOf({ what, fix }: WorkflowTrouble): string {
  return `it ${what}; ${fix}`;
}

/**
 * Why a workflow does not answer a query or an update, and how to fix it if that is known.
 *
 * @throws TemporalUnreachableError
 */
export async function reasonOfSilence(client: Client, workflowId: string, error: unknown): Promise<string> {
  if (error instanceof QueryNotRegisteredError) return 'it has not begun';
  const trouble = await readTrouble(client, workflowId);
  if (trouble) return reasonOf(trouble);
  if (isPassingTrouble(error) || isCutOff(error)) return NO_ANSWER;
  return grpcStatusOf(error) === undefined ? String(error) : describeGrpcError(error);
}

/** Why a workflow does not answer if no other trouble is found. */
export const NO_ANSWER = 'no worker is running, or the workers are overloaded';

/**
 * Queries a workflow. A query waits for a worker: without one it ends at its deadline, as it does without a server.
 *
 * @throws WorkerUnavailableError with the reason; TemporalUnreachableError; the SDK's WorkflowNotFoundError
 */
export async function queryWorkflow<Answer, Args extends unknown[]>(
  client: Client,
  workflowId: string,
  timeoutMs: number,
  query: QueryDefinition<Answer, Args>,
  ...args: Args
): Promise<Answer> {
  try {
    const handle = client.workflow.getHandle(workflowId);
    return await client.withDeadline(Date.now() + timeoutMs, () => handle.query(query, ...args));
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) throw error;
    const reason = await reasonOfSilence(client, workflowId, error);
    throw new WorkerUnavailableError(workflowId, reason, { cause: error });
  }
}

function wordsOf(pauseInfo: { identity?: string | null; reason?: string | null } | null | undefined) {
  if (!pauseInfo) return '';
  const { identity, reason } = pauseInfo;
  const words = [identity ? `by ${oneLine(identity)}` : '', reason ? `(${oneLine(reason)})` : ''].filter(Boolean);
  return words.length > 0 ? ` ${words.join(' ')}` : '';
}

function restoreCommand(projectId: string): string {
  return `follow-up budget restore ${projectId}`;
}

function isoSecond(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim().slice(0, 200);
}

/** `TASK_QUEUE_TYPE_*` of Temporal's API. */
const QUEUE_TYPE = { workflow: 1, activity: 2 } as const;

/** `WORKER_VERSIONING_MODE_VERSIONED` of Temporal's API. */
const VERSIONED = 2;

/** Kind of the tasks in a task queue. */
export type QueueType = keyof typeof QUEUE_TYPE;

/** A worker that the server knows from its polls. The server forgets it 5 min after the last poll. */
export interface Poller {
  /** `{process id}@{host}/…` */
  identity: string;
  /** The build that it runs; empty if the server does not know. */
  build: string;
  /** Its deployment, if it has a version for Temporal's Worker Versioning. */
  deploymentName?: string;
  /** Start of its last poll by the server's clock, in epoch milliseconds; a poll waits for up to 1 min. */
  polledAtMs?: number;
}

/**
 * Workers that poll a task queue, or did in the last 5 min.
 *
 * @throws TemporalUnreachableError
 */
export async function readPollers(
  client: Client,
  name: string,
  type: QueueType,
  timeoutMs: number = DEFAULT_CALL_TIMEOUT_MS,
): Promise<Poller[]> {
  const { namespace } = client.options;
  const request = { namespace, taskQueue: { name }, taskQueueType: QUEUE_TYPE[type] };
  const { pollers } = await callTemporal(
    client,
    // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- the enum is in a package of the SDK's own
    () => client.workflowService.describeTaskQueue(request),
    { timeoutMs },
  );
  return pollers.map(({ identity, lastAccessTime, deploymentOptions, workerVersionCapabilities }) => ({
    identity: identity ?? '',
    build: deploymentOptions?.buildId || workerVersionCapabilities?.buildId || '',
    ...(Number(deploymentOptions?.workerVersioningMode) === VERSIONED && {
      deploymentName: deploymentOptions?.deploymentName ?? '',
    }),
    ...(lastAccessTime && { polledAtMs: timestampMs(lastAccessTime) }),
  }));
}

/**
 * The build of a deployment's current version, which new workflows get; `undefined` if no version is current.
 *
 * @throws TemporalUnreachableError
 */
export async function readCurrentBuild(client: Client, deploymentName: string): Promise<string | undefined> {
  const { namespace } = client.options;
  const { workerDeploymentInfo } = await callTemporal(client, () =>
    client.workflowService.describeWorkerDeployment({ namespace, deploymentName }),
  );
  return workerDeploymentInfo?.routingConfig?.currentDeploymentVersion?.buildId || undefined;
}
