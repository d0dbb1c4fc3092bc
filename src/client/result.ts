import { setMaxListeners } from 'node:events';
import { type Client, WorkflowFailedError } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure, TerminatedFailure, TimeoutFailure } from '@temporalio/common';
import { z } from 'zod';
import {
  deliveredValues,
  describeIssues,
  type FailureDetails,
  failureDetailsSchema,
  FailureType,
  type InputIssue,
  parseInput,
} from '../contract/index.js';
import { isPassingTrouble, pause } from '../temporal/grpc.js';
import { BatchFailedError, FollowUpFailedError } from './client-errors.js';
import { type About, type ExecutionStatus, isVagueTrouble, retryWhileAway, toClientError } from './temporal.js';

/** Options of `result`. */
export interface ResultOptions {
  /** Ends the wait, not the workflow, with the signal's reason. */
  signal?: AbortSignal;
  /** Longest outage of Temporal before the wait ends. @default 600_000 (10 min) */
  reconnectTimeoutMs?: number;
}

/** The server ends an empty long poll after about 20 s; a longer call has lost its server. */
const LONG_POLL_TIMEOUT_MS = 60_000;
const DEFAULT_RECONNECT_TIMEOUT_MS = 600_000;
const RECONNECT_INTERVAL_MS = 1_000;
/** Most consecutive vague errors. The SDK has tried 10 times before it throws one. */
const MAX_VAGUE_IN_A_ROW = 10;

interface AwaitedWorkflow<Result> {
  about: About;
  /** Describes the workflow, which fails while Temporal is away. */
  describe: () => Promise<{ status: ExecutionStatus }>;
  schema: z.ZodType<Result>;
  /** The subject of error messages. */
  what: string;
  toError: (error: WorkflowFailedError) => Error;
}

/**
 * Waits for the result of a workflow without a time limit: polls Temporal, reconnects after lost connections, and
 * follows continued and reset runs.
 *
 * @throws the error of `toError`; FollowUpFailedError of the type `Unexpected` if the result does not fit the schema;
 *   lasting errors of the long poll or of `describe`; the signal's reason
 */
export async function awaitResult<Result>(
  client: Client,
  { about, describe, schema, what, toError }: AwaitedWorkflow<Result>,
  options: ResultOptions,
): Promise<Result> {
  const { workflowId } = about;
  let value: unknown;
  try {
    value = await pollForResult(client, workflowId, describe, options);
  } catch (error) {
    throw error instanceof WorkflowFailedError ? toError(error) : toClientError(client, error, about);
  }
  const parsed = parseInput(schema, value);
  if (parsed.ok) return parsed.value;
  const message = `the workflow's result is not a ${what} result: ${describeIssues(parsed.issues)}`;
  throw new FollowUpFailedError(workflowId, 'Unexpected', message, { delivered: 'unknown' });
}

async function pollForResult(
  client: Client,
  workflowId: string,
  describe: () => Promise<{ status: ExecutionStatus }>,
  { signal, reconnectTimeoutMs = DEFAULT_RECONNECT_TIMEOUT_MS }: ResultOptions,
): Promise<unknown> {
  const longPoll = () =>
    client.withDeadline(Date.now() + LONG_POLL_TIMEOUT_MS, () => client.workflow.getHandle(workflowId).result());
  let vagueInARow = 0;
  for (;;) {
    signal?.throwIfAborted();
    try {
      return await (signal ? client.withAbortSignal(signalForOnePoll(signal), longPoll) : longPoll());
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof WorkflowFailedError) {
        if (!(error.cause instanceof TerminatedFailure)) throw error;
        // A reset terminates the run and starts another under the same id.
        if ((await retryWhileAway(describe, reconnectTimeoutMs, signal)).status === 'terminated') throw error;
        continue;
      }
      if (isPassingTrouble(error)) vagueInARow = 0;
      else if (!isVagueTrouble(error) || ++vagueInARow > MAX_VAGUE_IN_A_ROW) throw error;
      await retryWhileAway(describe, reconnectTimeoutMs, signal);
      await pause(RECONNECT_INTERVAL_MS, signal);
    }
  }
}

/**
 * The SDK never removes its listeners from a signal, and adds one at each response of the server, which comes at each
 * event of a busy workflow. So each long poll gets its own signal without a listener limit.
 */
function signalForOnePoll(signal: AbortSignal): AbortSignal {
  const own = AbortSignal.any([signal]);
  setMaxListeners(0, own);
  return own;
}

// Keeps fields of later versions.
const detailsSchema = failureDetailsSchema.loose().extend({ delivered: z.enum(deliveredValues).catch('unknown') });

/** This library's error for the end of a follow-up. */
export function toOutcomeError(workflowId: string, error: WorkflowFailedError): FollowUpFailedError {
  const { cause } = error;
  const failed = (type: FollowUpFailedError['type'], message: string, details?: FailureDetails) =>
    new FollowUpFailedError(workflowId, type, message, details ?? { delivered: 'unknown' }, { cause: error });
  const unknown = 'it is unknown whether the message was delivered';
  if (cause instanceof CancelledFailure) {
    return failed('Cancelled', 'the follow-up was cancelled before its message was sent', { delivered: 'no' });
  }
  if (cause instanceof TerminatedFailure) {
    return failed('Terminated', `the workflow was terminated: ${cause.message}; ${unknown}`);
  }
  if (cause instanceof TimeoutFailure)
    return failed('TimedOut', `the workflow reached its Temporal timeout; ${unknown}`);
  if (!(cause instanceof ApplicationFailure)) {
    return failed('Unexpected', `the workflow failed: ${cause?.message ?? error.message}`);
  }
  const type = Object.values(FailureType).find((known) => known === cause.type);
  if (type) return failed(type, cause.message, toDetails(cause.details?.[0]));
  return failed('Unexpected', `the workflow failed: ${cause.type ?? ''}: ${cause.message}`);
}

function toDetails(value: unknown): FailureDetails {
  const parsed = detailsSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  // Other fields may come from a newer version, but `delivered` must not be lost.
  return detailsSchema.pick({ delivered: true }).safeParse(value).data ?? { delivered: 'unknown' };
}

/** This library's error for the end of a batch's workflow. */
export function toBatchError(batchId: string, error: WorkflowFailedError): BatchFailedError {
  const { cause } = error;
  const failed = (type: string, reason: string, issues?: InputIssue[]) =>
    new BatchFailedError(batchId, type, reason, issues, { cause: error });
  if (cause instanceof TerminatedFailure) return failed('Terminated', `it was terminated: ${cause.message}`);
  if (cause instanceof ApplicationFailure) return failed(cause.type ?? 'Unexpected', cause.message, issuesIn(cause));
  return failed('Unexpected', cause?.message ?? error.message);
}

export function issuesIn({ details }: ApplicationFailure): InputIssue[] | undefined {
  return detailsSchema.pick({ issues: true }).safeParse(details?.[0]).data?.issues;
}
