import type { Client, WorkflowExecutionDescription } from '@temporalio/client';
import { type Payload, WorkflowNotFoundError } from '@temporalio/common';
import { z } from 'zod';
import { defined } from '../common/index.js';
import { describeGrpcError, GrpcStatus, grpcStatusOf } from './grpc.js';

const ENDS = "('Completed', 'Failed', 'Canceled', 'Terminated', 'TimedOut', 'ContinuedAsNew')";
/**
 * Conditions of list queries. `Running` does not match a workflow that is paused in Temporal, and server 1.29 does not
 * know `Paused`.
 */
export const IS_OPEN = `ExecutionStatus NOT IN ${ENDS}`;
export const HAS_ENDED = `ExecutionStatus IN ${ENDS}`;

/** The same as {@link IS_OPEN}, of a workflow that was read. */
export function isOpen({ name }: { name: string }): boolean {
  return name === 'RUNNING' || name === 'PAUSED';
}

const AT_ONCE = 10;

/**
 * Like `Promise.all(items.map(work))`, but ten at a time, because each call costs the server, and often a worker, time.
 */
export async function fewAtATime<Item, Result>(
  items: readonly Item[],
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (let next = 0; next < items.length; next += AT_ONCE) {
    results.push(...(await Promise.all(items.slice(next, next + AT_ONCE).map(work))));
  }
  return results;
}

/** Describes the newest run of a workflow; `undefined` if the workflow does not exist. */
export async function describeIfKnown(
  client: Client,
  workflowId: string,
): Promise<WorkflowExecutionDescription | undefined> {
  return ifFound(() => client.workflow.getHandle(workflowId).describe());
}

/** The result of a call; `undefined` if its workflow does not exist or does not run. */
export async function ifFound<T>(call: () => Promise<T>): Promise<T | undefined> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
}

export type Payloads = Payload[] | null | undefined;

/**
 * Decodes a workflow's payloads with this client's data converter.
 *
 * @param activityId if they belong to an activity of the workflow
 */
export async function decodePayloads(
  client: Client,
  workflowId: string,
  payloads: Payloads,
  activityId?: string,
): Promise<unknown[]> {
  const { namespace, loadedDataConverter } = client.options;
  const context =
    activityId === undefined
      ? ({ type: 'workflow', namespace, workflowId } as const)
      : ({ type: 'activity', namespace, workflowId, activityId, isLocal: false } as const);
  let decoded = payloads ?? [];
  for (const codec of loadedDataConverter.payloadCodecs.toReversed()) decoded = await codec.decode(decoded, context);
  return decoded.map((payload) => loadedDataConverter.payloadConverter.fromPayload<unknown>(payload, context));
}

/** The message of a failure, which a failure converter may hide from the server. As it is if this client can't decode it. */
export async function failureMessage(
  client: Client,
  workflowId: string,
  failure: { message?: string | null; encodedAttributes?: Payload | null } | null | undefined,
  activityId?: string,
): Promise<string | undefined> {
  const { message, encodedAttributes } = failure ?? {};
  const payloads = encodedAttributes ? [encodedAttributes] : [];
  const [hidden] = await decodePayloads(client, workflowId, payloads, activityId).catch(() => []);
  return z.looseObject({ message: z.string() }).safeParse(hidden).data?.message ?? message ?? undefined;
}

/**
 * The arguments of a workflow run.
 *
 * @param runId default: the newest run; continued runs have the same first argument
 * @throws WorkflowNotFoundError
 */
export async function readRunStart(client: Client, workflowId: string, runId?: string): Promise<unknown[]> {
  const { namespace } = client.options;
  const request = { namespace, execution: { workflowId, ...defined({ runId }) }, maximumPageSize: 1 };
  const { history } = await client.workflowService.getWorkflowExecutionHistory(request).catch((error: unknown) => {
    if (grpcStatusOf(error) !== GrpcStatus.NOT_FOUND) throw error;
    throw new WorkflowNotFoundError(describeGrpcError(error), workflowId, runId);
  });
  const payloads = history?.events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads;
  const args = await decodePayloads(client, workflowId, payloads);
  if (args.length === 0) throw new TypeError(`${workflowId} was started without an input`);
  return args;
}
