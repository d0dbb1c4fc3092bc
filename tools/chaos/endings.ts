import { type Client, WorkflowFailedError } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure, TerminatedFailure } from '@temporalio/common';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { z } from 'zod';
import { followUpResultSchema } from '../../src/contract/index.js';
import type { Ending, Send } from './checker.js';

/** Running or paused: servers before 1.30 do not know the latter by its name. */
const IS_OPEN = ['ContinuedAsNew', 'Completed', 'Terminated', 'Failed', 'Canceled', 'TimedOut']
  .map((status) => `ExecutionStatus != '${status}'`)
  .join(' AND ');

/** Longest that one call may hang while servers and connections are broken. */
const CALL_DEADLINE_MS = 15_000;

const LATEST_EVENTS = 12;

const detailsSchema = z.object({ delivered: z.enum(['yes', 'no', 'unknown']) });

/** Waits for a follow-up's end, whatever breaks. `undefined` if it has none by `untilMs` (epoch milliseconds). */
export async function awaitEnding(client: Client, workflowId: string, untilMs: number): Promise<Ending | undefined> {
  const handle = client.workflow.getHandle(workflowId);
  while (Date.now() < untilMs) {
    try {
      return await client.withDeadline(Math.min(untilMs, Date.now() + CALL_DEADLINE_MS), async () => {
        const word = await handle.result().then(fromResult, fromFailure);
        const { closeTime } = await handle.describe();
        return { atMs: closeTime?.getTime() ?? Date.now(), ...word };
      });
    } catch {
      // The deadline of the call has passed, or a server is down.
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  return undefined;
}

function fromResult(value: unknown): Omit<Ending, 'atMs'> {
  const { delivery } = followUpResultSchema.parse(value);
  return { kind: 'result', delivered: delivery === 'assumed' ? 'unknown' : 'yes' };
}

function fromFailure(error: unknown): Omit<Ending, 'atMs'> {
  if (!(error instanceof WorkflowFailedError)) throw error;
  const { cause } = error;
  if (cause instanceof CancelledFailure) return { kind: 'canceled', delivered: 'no' };
  if (cause instanceof TerminatedFailure) return { kind: 'terminated', delivered: 'unknown' };
  if (!(cause instanceof ApplicationFailure)) throw error;
  const { delivered } = detailsSchema.parse(cause.details?.[0]);
  return { kind: 'failed', delivered, type: cause.type ?? undefined };
}

/** Value of the API's `WorkflowTaskFailedCause`. */
const RESET = 20;

/** The sends of a follow-up, from its history. The run before a reset may have sent at any time. */
export async function readSends(client: Client, workflowId: string): Promise<Send[]> {
  const { events } = await client.workflow.getHandle(workflowId).fetchHistory();
  const sends = new Map<string, Send & { left: string }>();
  for (const event of events ?? []) {
    const atMs = tsToMs(event.eventTime);
    if (Number(event.workflowTaskFailedEventAttributes?.cause) === RESET) {
      sends.set(String(event.eventId), { fromMs: 0, toMs: atMs, left: 'a run that was reset' });
    }
    if (event.activityTaskScheduledEventAttributes?.activityType?.name === 'sendMessage') {
      sends.set(String(event.eventId), { fromMs: atMs, toMs: Number.POSITIVE_INFINITY, left: '' });
    }
    const started = event.activityTaskStartedEventAttributes;
    const completed = event.activityTaskCompletedEventAttributes;
    const ended = completed ?? event.activityTaskFailedEventAttributes ?? event.activityTaskTimedOutEventAttributes;
    const send = sends.get(String((started ?? ended)?.scheduledEventId));
    if (!send) continue;
    if (ended) send.toMs = atMs;
    const [answer] = completed?.result?.payloads ?? [];
    const at = new Date(atMs).toISOString();
    if (started) send.left += `attempt ${started.attempt} ${at} ${started.lastFailure?.message ?? ''}`;
    if (ended) send.left += `, ended ${at} ${Buffer.from(answer?.data ?? []).toString()}`;
  }
  return [...sends.values()];
}

/** Where each open workflow of a list query stands, a line each. */
export async function whereTheyStand(client: Client, query: string): Promise<string> {
  const lines: string[] = [];
  for await (const { workflowId } of client.workflow.list({ query: `${query} AND ${IS_OPEN}` })) {
    lines.push(`${workflowId} ${await whereItStands(client, workflowId)}`);
  }
  return lines.join('\n');
}

/** The latest events of a running workflow and what is pending, to find out why it has not ended. */
export async function whereItStands(client: Client, workflowId: string): Promise<string> {
  const handle = client.workflow.getHandle(workflowId);
  const { raw, runId } = await handle.describe();
  const { events } = await handle.fetchHistory();
  const latest = events?.slice(-LATEST_EVENTS).map(({ eventId, eventTime, ...attributes }) => {
    const [kind = 'unknown'] = Object.keys(attributes).filter((key) => key.endsWith('EventAttributes'));
    return `${String(eventId)} ${kind.replace('EventAttributes', '')} ${new Date(tsToMs(eventTime)).toISOString()}`;
  });
  const pending = { task: raw.pendingWorkflowTask, activities: raw.pendingActivities };
  return JSON.stringify({ now: new Date().toISOString(), runId, latest, pending });
}
