import type { Client } from '@temporalio/client';
import { tsToMs } from '@temporalio/common/lib/time.js';
import type { TimeSpan } from './checker.js';

/** Value of the API's `WorkflowTaskFailedCause`. */
const RESET = 20;

/** When a follow-up's sends were under way, from its history. The run before a reset may have sent at any time. */
export async function readSends(client: Client, workflowId: string): Promise<TimeSpan[]> {
  const { events } = await client.workflow.getHandle(workflowId).fetchHistory();
  const sends = new Map<string, TimeSpan>();
  for (const event of events ?? []) {
    const [id, atMs] = [String(event.eventId), tsToMs(event.eventTime)];
    if (Number(event.workflowTaskFailedEventAttributes?.cause) === RESET) sends.set(id, { fromMs: 0, toMs: atMs });
    const { activityTaskScheduledEventAttributes: scheduled, activityTaskCompletedEventAttributes: completed } = event;
    if (scheduled?.activityType?.name === 'sendMessage') sends.set(id, { fromMs: atMs, toMs: Infinity });
    const ended = completed ?? event.activityTaskFailedEventAttributes ?? event.activityTaskTimedOutEventAttributes;
    const send = sends.get(String(ended?.scheduledEventId));
    if (send) send.toMs = atMs;
  }
  return [...sends.values()];
}

/** What is pending in a running workflow, to find out why it has not ended. */
export async function whereItStands(client: Client, workflowId: string): Promise<string> {
  const { raw, status, runId, historyLength } = await client.workflow.getHandle(workflowId).describe();
  const { pendingWorkflowTask, pendingActivities } = raw;
  return JSON.stringify({ status: status.name, runId, historyLength, pendingWorkflowTask, pendingActivities });
}
