import type { ConnectionLike } from '@temporalio/client';
import { SearchAttribute } from '../contract/index.js';
import { describeGrpcError, GrpcStatus, grpcStatusOf, isAccessRefused, isPassingTrouble, pause } from './grpc.js';
import { TemporalUnreachableError } from './unreachable-error.js';

/** `INDEXED_VALUE_TYPE_*` of Temporal's API, and a value that nothing has, for a query. */
const TYPES = {
  KEYWORD: { typeName: 'Keyword', code: 2, unused: 'none' },
  DATETIME: { typeName: 'Datetime', code: 6, unused: '1970-01-01T00:00:00Z' },
};
const attributes = Object.values(SearchAttribute).map(({ name, type }) => ({ name, ...TYPES[type] }));
type Attribute = (typeof attributes)[number];
const namesOf = (all: readonly Attribute[]): string[] => all.map(({ name }) => name);

/** A list query with all search attributes, which finds nothing. It needs no permission to list attributes. */
export const QUERY_OF_ALL = attributes.map(({ name, unused }) => `${name} = "${unused}"`).join(' AND ');

/** The server reads attributes from a cache that may be a minute old. */
const QUERYABLE_TIMEOUT_MS = 90_000;
const QUERYABLE_INTERVAL_MS = 500;
/** Includes the SDK's retries. */
const CALL_TIMEOUT_MS = 10_000;

/** The server's refusal of one attribute too many. */
const OVER_LIMIT = /more than \d+ search attributes? of type/i;
const ROOM =
  'remove what nothing uses ("temporal operator search-attribute list" and "remove"), or use another namespace (TEMPORAL_NAMESPACE)';
const PERMISSION =
  'these credentials may not: run "follow-up setup" with an administrator\'s, which may call AddSearchAttributes of the OperatorService';

/** Thrown when the search attributes are missing and cannot be added. A workflow that sets them would get stuck. */
export class SearchAttributesError extends Error {
  override readonly name = 'SearchAttributesError';
}

/**
 * Registers missing search attributes of follow-ups, and waits until the server accepts queries with them. Many workers
 * may do so at once.
 *
 * @returns names of the attributes that were missing
 * @throws SearchAttributesError if they are missing and may not be registered, or exist with another type;
 *   TemporalUnreachableError; the signal's reason
 */
export async function ensureSearchAttributes(
  connection: ConnectionLike,
  namespace: string,
  { timeoutMs = QUERYABLE_TIMEOUT_MS, signal }: { timeoutMs?: number; signal?: AbortSignal | undefined } = {},
): Promise<{ added: string[] }> {
  try {
    return await ensure(connection, namespace, timeoutMs, signal);
  } catch (error) {
    if (error instanceof SearchAttributesError || grpcStatusOf(error) === undefined) throw error;
    throw new TemporalUnreachableError(undefined, describeGrpcError(error), undefined, { cause: error });
  }
}

async function ensure(connection: ConnectionLike, namespace: string, timeoutMs: number, signal?: AbortSignal) {
  const existing = await listAttributes(connection, namespace);
  const isWrong = ({ name, code }: Attribute) => existing?.has(name) && existing.get(name) !== code;
  const wrong = attributes.filter(isWrong).map(({ name, typeName }) => `${name} with another type than ${typeName}`);
  if (wrong.length > 0) {
    throw new SearchAttributesError(
      `namespace ${namespace} has ${wrong.join(', ')}: remove them ` +
        '("temporal operator search-attribute remove") and run "follow-up setup"',
    );
  }
  const missing = attributes.filter(({ name }) => !existing?.has(name));
  const { added, refusal } = await addAttributes(connection, namespace, missing, existing);
  await waitUntilQueryable(connection, namespace, timeoutMs, signal, refusal);
  return { added };
}

/** Types by name; `undefined` if the server cannot list them, like the time-skipping test server, or may not. */
async function listAttributes(connection: ConnectionLike, namespace: string): Promise<Map<string, number> | undefined> {
  try {
    const { customAttributes } = await withinLimit(connection, () =>
      connection.operatorService.listSearchAttributes({ namespace }),
    );
    return new Map(Object.entries(customAttributes));
  } catch (error) {
    const status = grpcStatusOf(error);
    if (status === GrpcStatus.UNIMPLEMENTED || status === GrpcStatus.PERMISSION_DENIED) return undefined;
    throw error;
  }
}

/** Adds attributes. Returns a refusal instead of throwing it if they may exist all the same: a query will show. */
async function addAttributes(
  connection: ConnectionLike,
  namespace: string,
  missing: readonly Attribute[],
  existing: ReadonlyMap<string, number> | undefined,
): Promise<{ added: string[]; refusal?: SearchAttributesError }> {
  if (missing.length === 0) return { added: [] };
  const searchAttributes = Object.fromEntries(missing.map(({ name, code }) => [name, code]));
  try {
    await withinLimit(connection, () =>
      connection.operatorService.addSearchAttributes({ namespace, searchAttributes }),
    );
    return { added: namesOf(missing) };
  } catch (error) {
    const status = grpcStatusOf(error);
    if (status === GrpcStatus.ALREADY_EXISTS) return { added: [] };
    if (isPassingTrouble(error)) throw error;
    const isRefused = isAccessRefused(error) || status === GrpcStatus.UNIMPLEMENTED;
    const reason = describeGrpcError(error);
    const advice = isRefused ? `; ${PERMISSION}` : OVER_LIMIT.test(reason) ? `; ${ROOM}` : '';
    const lack = `namespace ${namespace} lacks the search attributes ${namesOf(missing).join(', ')}`;
    const refusal = new SearchAttributesError(`${lack}, and the server does not register them (${reason})${advice}`, {
      cause: error,
    });
    if (existing === undefined && isRefused) return { added: [], refusal };
    throw refusal;
  }
}

function withinLimit<T>(connection: ConnectionLike, call: () => Promise<T>): Promise<T> {
  return connection.withDeadline(Date.now() + CALL_TIMEOUT_MS, call);
}

async function waitUntilQueryable(
  connection: ConnectionLike,
  namespace: string,
  timeoutMs: number,
  signal?: AbortSignal,
  refusal?: SearchAttributesError,
): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs;
  for (;;) {
    try {
      await withinLimit(connection, () =>
        connection.workflowService.listWorkflowExecutions({ namespace, pageSize: 1, query: QUERY_OF_ALL }),
      );
      return;
    } catch (error) {
      const status = grpcStatusOf(error);
      if (status === GrpcStatus.UNIMPLEMENTED) return;
      if (status === GrpcStatus.INVALID_ARGUMENT && refusal) throw refusal;
      if (status !== GrpcStatus.INVALID_ARGUMENT && !isPassingTrouble(error)) throw error;
      if (performance.now() < deadlineMs) await pause(QUERYABLE_INTERVAL_MS, signal);
      else {
        const problem = `does not accept queries with ${namesOf(attributes).join(', ')} (${describeGrpcError(error)})`;
        throw new SearchAttributesError(`namespace ${namespace} ${problem}: check its database`, { cause: error });
      }
    }
  }
}
