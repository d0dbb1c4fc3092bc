import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { NamespaceNotFoundError, WorkflowNotFoundError } from '@temporalio/common';
import { parseFollowUpWorkflowId, SearchAttribute, WorkflowType } from '../contract/index.js';
import { describeGrpcError, GrpcStatus, grpcStatusOf, isBadHeader, isPassingTrouble, pause } from '../temporal/grpc.js';
import {
  FollowUpClientError,
  RefusedError,
  type RefusedRequest,
  TemporalUnreachableError,
  WorkerUnavailableError,
} from './client-errors.js';

/** Deadline of a call to Temporal in milliseconds, including the SDK's retries. */
export const DEFAULT_CALL_TIMEOUT_MS = 10_000;

export interface About {
  workflowId: string;
  /** The refusal to throw if the workflow does not exist, and its id. Default: the SDK's WorkflowNotFoundError */
  missing?: [type: RefusedRequest, id: string];
}

/**
 * Calls Temporal with a deadline, and converts Temporal's errors to this library's. Errors about the workflow pass
 * through.
 *
 * @throws TemporalUnreachableError; RefusedError without the search attributes, or as `about` says
 */
export async function callTemporal<T>(
  client: Client,
  call: () => Promise<T>,
  about: Partial<About> = {},
  timeoutMs = DEFAULT_CALL_TIMEOUT_MS,
): Promise<T> {
  try {
    return await client.withDeadline(Date.now() + timeoutMs, call);
  } catch (error) {
    throw toClientError(client, error, about);
  }
}

/** This library's error if Temporal is the cause, or the workflow is missing; otherwise the error itself. */
export function toClientError(client: Client, error: unknown, { workflowId, missing }: Partial<About> = {}): unknown {
  // Its cause is already converted.
  if (error instanceof FollowUpClientError) return error;
  const options = { cause: error };
  if (missing && error instanceof WorkflowNotFoundError) return new RefusedError(...missing, options);
  const unreachable = (reason: string) => new TemporalUnreachableError(addressOf(client), reason, workflowId, options);
  // Without its cause, which quotes the header.
  if (isBadHeader(error)) return new TemporalUnreachableError(addressOf(client), describeGrpcError(error), workflowId);
  if (error instanceof NamespaceNotFoundError) return unreachable(`it has no namespace ${error.namespace}`);
  switch (grpcStatusOf(error)) {
    case GrpcStatus.UNAVAILABLE:
    case GrpcStatus.RESOURCE_EXHAUSTED:
    case GrpcStatus.UNAUTHENTICATED:
    case GrpcStatus.PERMISSION_DENIED:
      return unreachable(describeGrpcError(error));
    case GrpcStatus.DEADLINE_EXCEEDED:
      return unreachable('no response in time');
    case GrpcStatus.INVALID_ARGUMENT:
      if (workflowId && /limit for signal/i.test(describeGrpcError(error)))
        return new RefusedError('TooManySignals', workflowId, options);
      return /search attribute|FollowUp\w+ is not/i.test(describeGrpcError(error))
        ? new RefusedError('SearchAttributesMissing', client.options.namespace, options)
        : error;
    default:
      return error;
  }
}

/** Whether the server refused a payload as too large (`limit.blobSize.error`). */
export function isTooLarge(error: unknown): boolean {
  return grpcStatusOf(error) === GrpcStatus.INVALID_ARGUMENT && /blob data size/i.test(describeGrpcError(error));
}

const VAGUE: readonly unknown[] = [GrpcStatus.CANCELLED, GrpcStatus.UNKNOWN, GrpcStatus.ABORTED, GrpcStatus.INTERNAL];

/** Whether an update arrived just as its workflow continued as new. The next run accepts it. */
export function isBetweenRuns(error: unknown): boolean {
  return grpcStatusOf(error) === GrpcStatus.FAILED_PRECONDITION;
}

/**
 * Whether an error says nothing about the request, as when the server's database is busy or the connection broke, so
 * that a wait may continue.
 */
export function isVagueTrouble(error: unknown): boolean {
  return VAGUE.includes(grpcStatusOf(error));
}

/** Whether a call ended without a response, like a query that no worker picks up before its deadline. */
export function isCutOff(error: unknown): boolean {
  return grpcStatusOf(error) === GrpcStatus.CANCELLED;
}

const RETRY_INTERVAL_MS = 1_000;

/**
 * Repeats a call for up to `timeoutMs` while Temporal or the workers are away.
 *
 * @throws the call's last error; any other error at once; the signal's reason
 */
export async function retryWhileAway<T>(call: () => Promise<T>, timeoutMs: number, signal?: AbortSignal): Promise<T> {
  const giveUpAtMs = Date.now() + timeoutMs;
  for (;;) {
    signal?.throwIfAborted();
    try {
      return await call();
    } catch (error) {
      const mayMend = error instanceof WorkerUnavailableError || isPassingTrouble(error) || isBetweenRuns(error);
      if (!mayMend || Date.now() >= giveUpAtMs) throw error;
    }
    await pause(RETRY_INTERVAL_MS, signal);
  }
}

function addressOf({ connection }: Client): string | undefined {
  if (!('options' in connection) || typeof connection.options !== 'object' || connection.options === null) {
    return undefined;
  }
  return 'address' in connection.options ? String(connection.options.address) : undefined;
}

/**
 * Runs a visibility query, page by page during iteration: running workflows first, then the last ended.
 *
 * @throws TemporalUnreachableError; RefusedError without the search attributes
 */
export async function* listWorkflows(client: Client, query: string): AsyncGenerator<WorkflowExecutionInfo> {
  const pages = client.workflow.list({ query })[Symbol.asyncIterator]();
  for (;;) {
    const next = await callTemporal(client, () => pages.next());
    if (next.done) return;
    yield next.value;
  }
}

const MAX_IDS = 500;

/**
 * Ids of the newest workflows that a visibility query finds. Needs no data converter.
 *
 * @throws TemporalUnreachableError; RefusedError without the search attributes
 */
export async function listIds(client: Client, query: string, maxIds = MAX_IDS): Promise<string[]> {
  const request = { namespace: client.options.namespace, query, pageSize: maxIds };
  const { executions } = await callTemporal(client, () => client.workflowService.listWorkflowExecutions(request));
  return executions.flatMap(({ execution }) => execution?.workflowId ?? []);
}

/** Temporal's largest page. */
const PAGE_SIZE = 1_000;

/**
 * Projects with follow-ups that match a condition of a visibility query. After each page, only other projects are read, so the cost grows
 * with the number of projects.
 *
 * @throws TemporalUnreachableError; RefusedError without the search attributes
 */
export async function findProjects(client: Client, condition: string): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  for (;;) {
    const ids = [...found].map((projectId) => `'${projectId}'`).join(', ');
    const others = ids === '' ? '' : ` AND ${SearchAttribute.projectId.name} NOT IN (${ids})`;
    const page = await listIds(
      client,
      `WorkflowType = '${WorkflowType.followUp}' AND ${condition}${others}`,
      PAGE_SIZE,
    );
    const before = found.size;
    for (const workflowId of page) {
      const id = parseFollowUpWorkflowId(workflowId);
      if (id) found.add(id.projectId);
    }
    if (page.length < PAGE_SIZE || found.size === before) return found;
  }
}

/** Temporal's status of a workflow. A paused workflow is running. */
export type ExecutionStatus = 'running' | 'completed' | 'failed' | 'cancelled' | 'terminated' | 'timedOut' | 'unknown';

const STATUS: Partial<Record<WorkflowExecutionInfo['status']['name'], ExecutionStatus>> = {
  RUNNING: 'running',
  CONTINUED_AS_NEW: 'running',
  PAUSED: 'running',
  COMPLETED: 'completed',
  FAILED: 'failed',
  CANCELLED: 'cancelled',
  TERMINATED: 'terminated',
  TIMED_OUT: 'timedOut',
};

export function toExecutionStatus(name: WorkflowExecutionInfo['status']['name']): ExecutionStatus {
  return STATUS[name] ?? 'unknown';
}

/** The end of a workflow, as text after `it`. */
export function describeEnd(status: ExecutionStatus): string {
  if (status === 'timedOut') return 'timed out';
  return status === 'cancelled' || status === 'terminated' ? `was ${status}` : status;
}
