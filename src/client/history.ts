import type { Client, WorkflowHandle } from '@temporalio/client';
import { callTemporal } from './temporal.js';

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
