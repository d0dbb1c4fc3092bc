import { isDeepStrictEqual } from 'node:util';
import { type Client, WorkflowFailedError, type WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { z } from 'zod';
import { FailureType, followUpInputSchema, type FollowUpSettings, parseInput } from '../contract/index.js';
import { readRunStart } from '../temporal/run-start.js';
import { callTemporal, timestampMs } from './temporal-call.js';

/** One event of a workflow's history. */
export type HistoryEvent = NonNullable<Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']>[number];

/** `HISTORY_EVENT_FILTER_TYPE_*` of Temporal's API. */
const FilterType = { all: 1, close: 2 } as const;

/**
 * The whole history of a run, or only the event that closed it (if it still runs: its last event).
 *
 * @throws TemporalUnreachableError, WorkflowNotFoundError
 */
export async function readHistory(
  client: Client,
  workflowId: string,
  runId: string,
  which: keyof typeof FilterType = 'all',
): Promise<HistoryEvent[]> {
  const events: HistoryEvent[] = [];
  let nextPageToken: Uint8Array | undefined;
  do {
    const request = {
      namespace: client.options.namespace,
      execution: { workflowId, runId },

      historyEventFilterType: FilterType[which],
      ...(nextPageToken && { nextPageToken }),
    };
    // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- the enum is in a package of the SDK's own
    const page = await callTemporal(client, () => client.workflowService.getWorkflowExecutionHistory(request));
    events.push(...(page.history?.events ?? []));
    nextPageToken = page.nextPageToken;
  } while (nextPageToken.length > 0);
  return events;
}

/**
 * Instant of the newest event of a workflow's latest run, as ISO 8601 in UTC.
 *
 * @throws TemporalUnreachableError, WorkflowNotFoundError
 */
export async function readNewestEventAt(client: Client, workflowId: string): Promise<string | undefined> {
  const { namespace } = client.options;
  const request = { namespace, execution: { workflowId }, maximumPageSize: 1 };
  const { history } = await callTemporal(client, () =>
    client.workflowService.getWorkflowExecutionHistoryReverse(request),
  );
  const at = history?.events?.[0]?.eventTime;
  return at ? new Date(timestampMs(at)).toISOString() : undefined;
}

/**
 * Whether an existing workflow was started with other settings; durations and defaults are compared by
 * meaning. `undefined` if that cannot be determined: its history is gone, or not readable with this client's data
 * converter.
 */
export async function inputDiffers(
  client: Client,
  workflowId: string,
  settings: FollowUpSettings,
): Promise<boolean | undefined> {
  try {
    const [input] = await readRunStart(client, workflowId);
    const parsed = parseInput(followUpInputSchema, input);
    return !parsed.ok || !isDeepStrictEqual(parsed.value, settings);
  } catch {
    return undefined;
  }
}

/**
 * Whether a follow-up that was started before ended with `InvalidInput` and certainly sent nothing, so that its key may
 * be used again. In any case the budget knows each id that was ever granted a slot, and grants none twice.
 */
export async function endedAsInvalid(client: Client, workflowId: string): Promise<boolean> {
  const handle = client.workflow.getHandle(workflowId);
  if ((await handle.describe()).status.name !== 'FAILED') return false;
  try {
    await handle.result();
    return false;
  } catch (error) {
    const failure = error instanceof WorkflowFailedError ? error.cause : undefined;
    if (!(failure instanceof ApplicationFailure) || failure.type !== FailureType.InvalidInput) return false;
    return z.object({ delivered: z.literal('no') }).safeParse(failure.details?.[0]).success;
  }
}
