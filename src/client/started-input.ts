import type { Client } from '@temporalio/client';
import { isDeepStrictEqual } from 'node:util';
import { type FollowUpSettings, followUpInputSchema, parseInput } from '../contract/index.js';

/**
 * Whether a workflow that exists already was started with other settings; durations and defaults are compared by
 * meaning. `undefined` where that cannot be told: its history is gone, or not readable with this client's data
 * converter.
 */
export async function inputDiffers(
  client: Client,
  workflowId: string,
  settings: FollowUpSettings,
): Promise<boolean | undefined> {
  try {
    const input = await firstArgument(client, workflowId);
    const parsed = parseInput(followUpInputSchema, input);
    return !parsed.ok || !isDeepStrictEqual(parsed.value, settings);
  } catch {
    return undefined;
  }
}

/** First argument of the newest run; a run that was continued as new carries the input on unchanged. */
async function firstArgument(client: Client, workflowId: string): Promise<unknown> {
  const { namespace, loadedDataConverter } = client.options;
  const { history } = await client.workflowService.getWorkflowExecutionHistory({
    namespace,
    execution: { workflowId },
    maximumPageSize: 1,
  });
  let payloads = history?.events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads ?? [];
  const context = { type: 'workflow', namespace, workflowId } as const;
  for (const codec of loadedDataConverter.payloadCodecs.toReversed()) payloads = await codec.decode(payloads, context);
  const [payload] = payloads;
  if (!payload) throw new TypeError(`${workflowId} was started without an input`);
  return loadedDataConverter.payloadConverter.fromPayload(payload, context);
}
