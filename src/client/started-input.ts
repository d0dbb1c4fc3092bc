import { type Client, WorkflowFailedError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { FailureType, type FollowUpSettings, followUpInputSchema, parseInput } from '../contract/index.js';
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
 * Whether a follow-up that was started before ended with `InvalidInput` and certainly sent nothing, so that its key may
 * be used again. Whatever this says, the budget knows each id that was ever granted, and grants it nothing twice.
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
