import { type Client, isGrpcServiceError } from '@temporalio/client';
import { NamespaceNotFoundError } from '@temporalio/common';
import { type FollowUpClientError, SearchAttributesMissingError, TemporalUnreachableError } from './errors.js';

// From the gRPC specification; importing @grpc/grpc-js for these numbers would make it a dependency.
const GrpcStatus = {
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  ABORTED: 10,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  UNAUTHENTICATED: 16,
} as const;

/** How long one call of Temporal may take, retries of the SDK included, in milliseconds. */
export const DEFAULT_CALL_TIMEOUT_MS = 10_000;

/**
 * Makes calls of Temporal with a deadline, and turns what goes wrong with Temporal itself into this library's errors.
 * Errors about the workflow pass through.
 *
 * @throws TemporalUnreachableError, SearchAttributesMissingError
 */
export async function callTemporal<T>(
  client: Client,
  call: () => Promise<T>,
  { timeoutMs = DEFAULT_CALL_TIMEOUT_MS, workflowId }: { timeoutMs?: number; workflowId?: string } = {},
): Promise<T> {
  try {
    return await client.withDeadline(Date.now() + timeoutMs, call);
  } catch (error) {
    throw toConnectionError(client, error, workflowId) ?? error;
  }
}

/** The error to throw where Temporal itself is the trouble, else `undefined`. */
export function toConnectionError(
  client: Client,
  error: unknown,
  workflowId?: string,
): FollowUpClientError | undefined {
  const options = { cause: error };
  const address = addressOf(client);
  if (error instanceof NamespaceNotFoundError) {
    return new TemporalUnreachableError(address, `it has no namespace ${error.namespace}`, workflowId, options);
  }
  const grpc = grpcErrorIn(error);
  const code: number | undefined = grpc?.code;
  if (!grpc) return undefined;
  switch (code) {
    case GrpcStatus.UNAVAILABLE:
    case GrpcStatus.RESOURCE_EXHAUSTED:
      return new TemporalUnreachableError(address, oneLine(grpc.details), workflowId, options);
    case GrpcStatus.DEADLINE_EXCEEDED:
      return new TemporalUnreachableError(address, 'no answer in time', workflowId, options);
    case GrpcStatus.UNAUTHENTICATED:
    case GrpcStatus.PERMISSION_DENIED:
      return new TemporalUnreachableError(address, `it refuses access: ${oneLine(grpc.details)}`, workflowId, options);
    case GrpcStatus.INVALID_ARGUMENT:
      return /search attribute|FollowUp\w+ is not/i.test(grpc.details)
        ? new SearchAttributesMissingError(client.options.namespace, options)
        : undefined;
    default:
      return undefined;
  }
}

/** Whether the server refused a payload as too large (`limit.blobSize.error`). */
export function isTooLarge(error: unknown): boolean {
  const grpc = grpcErrorIn(error);
  const code: number | undefined = grpc?.code;
  return code === GrpcStatus.INVALID_ARGUMENT && /blob data size/i.test(grpc?.details ?? '');
}

/** Whether waiting and trying again may help: the server is away or overloaded, or did not answer in time. */
export function isPassingTrouble(error: unknown): boolean {
  const code: number | undefined = grpcErrorIn(error)?.code;
  return (
    code === GrpcStatus.UNAVAILABLE || code === GrpcStatus.RESOURCE_EXHAUSTED || code === GrpcStatus.DEADLINE_EXCEEDED
  );
}

/**
 * Whether an error says nothing about what was asked for, such as that of a server whose database is busy, or of a
 * connection that broke: a wait may go on after it.
 */
export function isVagueTrouble(error: unknown): boolean {
  const code: number | undefined = grpcErrorIn(error)?.code;
  const vague: readonly number[] = [GrpcStatus.CANCELLED, GrpcStatus.UNKNOWN, GrpcStatus.ABORTED, GrpcStatus.INTERNAL];
  return code !== undefined && vague.includes(code);
}

/** Whether a call was broken off without an answer, as a query is that no worker takes within its deadline. */
export function isCutOff(error: unknown): boolean {
  const code: number | undefined = grpcErrorIn(error)?.code;
  return code === GrpcStatus.CANCELLED;
}

/** Details of the gRPC error in a chain of causes, as one short line. */
export function grpcDetails(error: unknown): string | undefined {
  const grpc = grpcErrorIn(error);
  return grpc && oneLine(grpc.details);
}

function grpcErrorIn(error: unknown) {
  for (let current = error; current instanceof Error; current = current.cause) {
    if (isGrpcServiceError(current)) return current;
  }
  return undefined;
}

function addressOf(client: Client): string | undefined {
  const { connection } = client;
  if (!('options' in connection) || typeof connection.options !== 'object' || connection.options === null)
    return undefined;
  return 'address' in connection.options ? String(connection.options.address) : undefined;
}

function oneLine(text: string): string {
  return text
    .replace(/\s+/g, ' ')
    .replace(/\. Resolution note: $/, '')
    .slice(0, 300);
}

const AT_ONCE = 10;

/**
 * Like `Promise.all(items.map(work))`, ten at a time: each call costs the server, and often a worker, a question. Answers
 * stand in the order of the items.
 */
export async function fewAtATime<Item, Answer>(
  items: readonly Item[],
  work: (item: Item) => Promise<Answer>,
): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (let next = 0; next < items.length; next += AT_ONCE) {
    answers.push(...(await Promise.all(items.slice(next, next + AT_ONCE).map(work))));
  }
  return answers;
}
