import { randomUUID } from 'node:crypto';
import type { Client, WorkflowHandle } from '@temporalio/client';
import { GrpcStatus, grpcStatusOf } from '../../src/temporal/grpc.js';

type ResetRequest = Parameters<Client['workflowService']['resetWorkflowExecution']>[0];

/** `RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL` of Temporal's API. */
const SIGNALS = [1] as unknown as NonNullable<ResetRequest['resetReapplyExcludeTypes']>;

/** `withoutSignals`: the signals since the task are dropped. By default they apply again. */
interface ResetOptions {
  withoutSignals?: boolean;
}

/** One event of a workflow's history. */
export type HistoryEvent = NonNullable<Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']>[number];

/** Which of its completed workflow tasks a workflow is reset to. */
export type ResetPoint = 'first' | 'last' | ((tasks: readonly HistoryEvent[]) => HistoryEvent | undefined);

/**
 * Starts a new run from the end of a task of the newest run, open or closed, as "Reset" in the UI does. It does nothing
 * if no task is complete yet.
 */
export async function resetWorkflow(
  client: Client,
  workflowId: string,
  point: ResetPoint,
  options: ResetOptions = {},
): Promise<void> {
  const handle = client.workflow.getHandle(workflowId);
  const { runId } = await handle.describe();
  const { events } = await handle.fetchHistory();
  const tasks = (events ?? []).filter((event) => event.workflowTaskCompletedEventAttributes);
  const task = point === 'first' ? tasks[0] : point === 'last' ? tasks.at(-1) : point(tasks);
  if (task) await resetToTask(client, { workflowId, runId }, task, options);
}

/** Starts a new run from the event that completed a task of a run. The server refuses a reset without one. */
export async function resetToTask(
  client: Client,
  { workflowId, runId }: { workflowId: string; runId: string },
  task: HistoryEvent | undefined,
  { withoutSignals = false }: ResetOptions = {},
): Promise<void> {
  await client.workflowService.resetWorkflowExecution({
    namespace: client.options.namespace,
    workflowExecution: { workflowId, runId },
    reason: 'by hand',
    requestId: randomUUID(),
    workflowTaskFinishEventId: task?.eventId ?? null,
    resetReapplyExcludeTypes: withoutSignals ? SIGNALS : [],
  });
}

/** Sends a signal in an encoding that no worker can read. */
export async function signalUnreadably(client: Client, workflowId: string, signalName: string): Promise<void> {
  const payload = { metadata: { encoding: Buffer.from('binary/encrypted') }, data: Buffer.from('x') };
  await client.workflowService.signalWorkflowExecution({
    ...request(client),
    workflowExecution: { workflowId },
    signalName,
    input: { payloads: [payload] },
  });
}

/** Pauses a workflow. The server needs `frontend.WorkflowPauseEnabled`. */
export async function pauseWorkflow(client: Client, workflowId: string): Promise<void> {
  await client.workflowService.pauseWorkflowExecution({ ...request(client), workflowId, reason: 'by hand' });
}

/** Undoes {@link pauseWorkflow}. */
export async function unpauseWorkflow(client: Client, workflowId: string): Promise<void> {
  await client.workflowService.unpauseWorkflowExecution({ ...request(client), workflowId, reason: 'by hand' });
}

/**
 * Presses one button on each pending activity of a workflow. One may end in the meantime.
 *
 * @param what `reset-heartbeats` is a reset that also forgets what earlier attempts have noted
 * @returns the number of activities that it changed
 */
export async function onActivities(
  client: Client,
  workflowId: string,
  what: 'reset' | 'reset-heartbeats' | 'pause' | 'unpause',
): Promise<number> {
  const { raw } = await client.workflow.getHandle(workflowId).describe();
  const service = client.workflowService;
  let count = 0;
  for (const { activityId } of raw.pendingActivities ?? []) {
    const activity = { ...request(client), execution: { workflowId }, id: activityId ?? '' };
    try {
      if (what === 'reset') await service.resetActivity(activity);
      else if (what === 'reset-heartbeats') await service.resetActivity({ ...activity, resetHeartbeat: true });
      else if (what === 'pause') await service.pauseActivity(activity);
      else await service.unpauseActivity(activity);
      count += 1;
    } catch (error) {
      if (grpcStatusOf(error) !== GrpcStatus.NOT_FOUND) throw error;
    }
  }
  return count;
}

const nobody = { workflowId: 'follow-up/another/job/key', runId: 'x', sendNumber: 1 };
const nonsense: readonly unknown[] = [
  ...[null, 7, -1, 'x', '', true, [], [[]], {}, { workflowId: 1 }, { kind: null }, { kind: 'rubbish' }],
  ...[{ kind: 'granted' }, { kind: 'waiting', runId: 'x' }, { kind: 'end' }, { kind: 'outcome', ...nobody }],
  { kind: 'end', ...nobody, turnUntilMs: 'soon' },
  { kind: 'end', ...nobody, jobAtEnd: { status: 1 } },
  { kind: 'outcome', ...nobody, outcome: 'sent', atMs: 9e99 },
  { kind: 'outcome', ...nobody, sendNumber: 0, outcome: 'lost', atMs: -1 },
  { kind: 'granted', runId: 'x', sendNumber: 1, grantedAtMs: 1, leaseMs: -1, overAtMs: 'never' },
  // Whole, but of another run or project.
  { kind: 'granted', ...nobody, grantedAtMs: Date.now(), leaseMs: 9_000, overAtMs: Date.now() + 9_000 },
  { kind: 'outcome', ...nobody, outcome: 'sent', atMs: Date.now() },
  { kind: 'waiting', runId: 'x', sendNumber: 1, reason: 'slot', position: 5, expectedAtMs: 1e300 },
  { ...nobody, lane: 'fast' },
  {
    ...nobody,
    lane: 'interactive',
    messageTag: 'x',
    mayHaveSent: false,
    startedAtMs: 1,
    leaseMs: 1,
    drainMs: 1,
    maxLimit: 9,
  },
  { limit: -1, window: 'soon', reserve: [] },
  { part: 0, number: 1e15, ended: [null] },
  JSON.parse('{"__proto__": {"kind": "end"}, "constructor": 1, "kind": "end", "workflowId": "__proto__"}'),
];

/**
 * Sends an unknown signal and known signals with arguments that make no sense, and expects that an unknown update and
 * known updates with such arguments are refused.
 */
export async function sendNonsense(
  client: Client,
  workflowId: string,
  signals: readonly string[],
  updates: readonly string[] = [],
): Promise<void> {
  const handle = client.workflow.getHandle(workflowId);
  for (const signal of ['no-such-signal', ...signals]) {
    await handle.signal(signal);
    await Promise.all(nonsense.map((each) => handle.signal(signal, each)));
  }
  const isAccepted = (name: string, each: unknown): Promise<boolean> => {
    // A workflow whose tasks fail answers no update.
    const update = () => handle.executeUpdate(name, { args: [each] });
    return client.withDeadline(Date.now() + 30_000, update).then(
      () => true,
      () => false,
    );
  };
  if (await isAccepted('no-such-update', {})) throw new Error(`${workflowId} accepted an unknown update`);
  for (const each of nonsense) {
    const accepted = await Promise.all(updates.map((name) => isAccepted(name, each)));
    if (accepted.includes(true))
      throw new Error(`${workflowId} accepted ${String(updates)} with ${JSON.stringify(each)}`);
  }
}

/** Deletes a workflow, open or closed, with its history. */
export async function deleteWorkflow(client: Client, workflowId: string): Promise<void> {
  const { namespace } = client.options;
  await client.workflowService.deleteWorkflowExecution({ namespace, workflowExecution: { workflowId } });
}

function request(client: Client) {
  return { namespace: client.options.namespace, identity: 'operator', requestId: randomUUID() };
}
