import type { Client, WorkflowHandle } from '@temporalio/client';
import type { Payload } from '@temporalio/common';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { callTemporal } from './temporal-call.js';

/** One event of a workflow's history. */
export type HistoryEvent = NonNullable<Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']>[number];

export type Payloads = Payload[] | null | undefined;

/** `HISTORY_EVENT_FILTER_TYPE_*` of Temporal's API. */
const FilterType = { all: 1, close: 2 } as const;

/**
 * The history of a run, whole, or only the event that closed it (the last event where it runs).
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
 * When the newest event of a workflow's latest run was, as ISO 8601 in UTC.
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
  return at ? new Date(tsToMs(at)).toISOString() : undefined;
}

/** Values of payloads that a workflow was given or gave, as this client's data converter reads them. */
export async function decodePayloads(client: Client, workflowId: string, payloads: Payloads): Promise<unknown[]> {
  const { namespace, loadedDataConverter } = client.options;
  const context = { type: 'workflow', namespace, workflowId } as const;
  let decoded = payloads ?? [];
  for (const codec of loadedDataConverter.payloadCodecs.toReversed()) decoded = await codec.decode(decoded, context);
  return decoded.map((payload) => loadedDataConverter.payloadConverter.fromPayload<unknown>(payload, context));
}

/** The reverse of {@link decodePayloads}. */
export async function encodePayloads(client: Client, workflowId: string, values: unknown[]): Promise<Payload[]> {
  const { namespace, loadedDataConverter } = client.options;
  const context = { type: 'workflow', namespace, workflowId } as const;
  let encoded = values.map((value) => loadedDataConverter.payloadConverter.toPayload(value, context));
  for (const codec of loadedDataConverter.payloadCodecs) encoded = await codec.encode(encoded, context);
  return encoded;
}
