import { randomUUID } from 'node:crypto';
import type { Client, WorkflowHandle } from '@temporalio/client';
import type { Random } from '../src/simulator/random.js';

type HistoryEvent = NonNullable<Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']>[number];

/**
 * Begins a new run of a workflow from the end of one of its workflow tasks.
 *
 * @param task the event that completed the task; without one the server refuses
 * @returns id of the new run
 */
export async function resetToTask(
  client: Client,
  { workflowId, runId }: { workflowId: string; runId: string },
  task: HistoryEvent | undefined,
): Promise<string> {
  const reset = await client.workflowService.resetWorkflowExecution({
    namespace: client.options.namespace,
    workflowExecution: { workflowId, runId },
    reason: 'test',
    requestId: randomUUID(),
    workflowTaskFinishEventId: task?.eventId ?? null,
  });
  return reset.runId;
}

/** Begins a new run from the end of one of the workflow's tasks so far; nothing where none has ended yet. */
export async function resetWorkflow(client: Client, workflowId: string, random: Random): Promise<void> {
  const handle = client.workflow.getHandle(workflowId);
  const { runId } = await handle.describe();
  const { events } = await handle.fetchHistory();
  const tasks = (events ?? []).filter((event) => event.workflowTaskCompletedEventAttributes);
  const task = tasks[random.between(0, Math.max(0, tasks.length - 1))];
  if (task) await resetToTask(client, { workflowId, runId }, task);
}

/** Begins the send activity anew, as `temporal activity reset` does; nothing where none is pending. */
export async function resetActivity(client: Client, workflowId: string): Promise<void> {
  const { raw } = await client.workflow.getHandle(workflowId).describe();
  for (const { activityId } of raw.pendingActivities ?? []) {
    await client.workflowService.resetActivity({
      namespace: client.options.namespace,
      execution: { workflowId },
      identity: 'chaos',
      id: activityId ?? '',
    });
  }
}
