import type { Client } from '@temporalio/client';
import { isDeepStrictEqual } from 'node:util';
import { type FollowUpSettings, followUpInputSchema, parseInput } from '../contract/index.js';
import { decodePayloads } from './history.js';

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
    const [input] = await readRunStart(client, workflowId);
    const parsed = parseInput(followUpInputSchema, input);
    return !parsed.ok || !isDeepStrictEqual(parsed.value, settings);
  } catch {
    return undefined;
  }
}

/**
 * What a run of a workflow was started with.
 *
 * @param runId the newest run where it is missing; a run that was continued as new carries the first argument on
 */
export async function readRunStart(client: Client, workflowId: string, runId?: string): Promise<unknown[]> {
  const { history } = await client.workflowService.getWorkflowExecutionHistory({
    namespace: client.options.namespace,
    execution: { workflowId, ...(runId !== undefined && { runId }) },
    maximumPageSize: 1,
  });
  const payloads = history?.events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads;
  const args = await decodePayloads(client, workflowId, payloads);
  if (args.length === 0) throw new TypeError(`${workflowId} was started without an input`);
  return args;
}
