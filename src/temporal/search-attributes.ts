import type { ConnectionLike } from '@temporalio/client';
import { SearchAttribute } from '../contract/index.js';
import { TemporalUnreachableError } from './errors.js';
import { describeGrpcError, GrpcStatus, grpcStatusOf, isPassingTrouble, pause } from './grpc.js';

/** `INDEXED_VALUE_TYPE_*` of Temporal's API, and a value that nothing has, for a query. */
const TYPES = {
  KEYWORD: { name: 'Keyword', code: 2, unused: 'none' },
  DATETIME: { name: 'Datetime', code: 6, unused: '1970-01-01T00:00:00Z' },
};
const typeOf = new Map(Object.values(SearchAttribute).map(({ name, type }) => [name, TYPES[type]]));

/** A list query with all search attributes, which finds nothing. It needs no permission to list attributes. */
export const QUERY_OF_ALL = [...typeOf].map(([name, { unused }]) => `${name} = "${unused}"`).join(' AND ');

/** The server reads attributes from a cache that may be a minute old. */
const QUERYABLE_TIMEOUT_MS = 90_000;
const QUERYABLE_INTERVAL_MS = 500;
/** Includes the SDK's retries. */
const CALL_TIMEOUT_MS = 10_000;

/** The server's refusal of one attribute too many, the only sign of the limit. */
const OVER_LIMIT = /more than (\d+) search attributes? of type (\w+)/i;

const REFUSALS: readonly unknown[] = [
  GrpcStatus.PERMISSION_DENIED,
  GrpcStatus.UNAUTHENTICATED,
  GrpcStatus.UNIMPLEMENTED,
];

/** Thrown when the search attributes are missing and cannot be added. A workflow that sets them would get stuck. */
export class SearchAttributesError extends Error {
  override readonly name = 'SearchAttributesError';
}

interface Target {
  connection: ConnectionLike;
  namespace: string;
  names: string[];
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
  const names = [...typeOf.keys()];
  const existing = await listAttributes(connection, namespace);
  const isWrong = (name: string) => existing?.has(name) && existing.get(name) !== typeOf.get(name)?.code;
  const wrong = names.filter(isWrong).map((name) => `${name} with another type than ${typeOf.get(name)?.name}`);
  if (wrong.length > 0) {
    throw new SearchAttributesError(
      `namespace ${namespace} has ${wrong.join(', ')}: remove them ` +
        '("temporal operator search-attribute remove") and run "follow-up setup"',
    );
  }
  const missing = names.filter((name) => !existing?.has(name));
  const added = missing.length === 0 ? [] : await addAttributes({ connection, namespace, names: missing }, existing);
  await waitUntilQueryable({ connection, namespace, names }, timeoutMs, signal);
  return { added };
}

/** Types by name; `undefined` if the server cannot list them, like the time-skipping test server. */
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

async function addAttributes(
  { connection, namespace, names }: Target,
  existing: ReadonlyMap<string, number> | undefined,
): Promise<string[]> {
  const searchAttributes = Object.fromEntries(names.map((name) => [name, typeOf.get(name)?.code ?? 0]));
  try {
    await withinLimit(connection, () =>
      connection.operatorService.addSearchAttributes({ namespace, searchAttributes }),
    );
    return names;
  } catch (error) {
    const status = grpcStatusOf(error);
    if (status === GrpcStatus.ALREADY_EXISTS) return [];
    const isRefused = REFUSALS.includes(status);
    // They may exist: the query will show.
    if (existing === undefined && isRefused) return [];
    if (isPassingTrouble(error)) throw error;
    const reason = describeGrpcError(error);
    const [, limit, type] = OVER_LIMIT.exec(reason) ?? [];
    let why = `, and the server does not register them (${reason})`;
    if (limit !== undefined) {
      why = `: ${describeLimit(Number(limit), type, names, existing)}`;
    } else if (isRefused) {
      why = `, and these credentials may not register them (${reason}): run "follow-up setup" with credentials that can`;
    }
    const lack = `namespace ${namespace} lacks the search attributes ${names.join(', ')}`;
    throw new SearchAttributesError(`${lack}${why}`, { cause: error });
  }
}

function describeLimit(
  limit: number,
  typeName: string | undefined,
  names: readonly string[],
  existing: ReadonlyMap<string, number> | undefined,
): string {
  const type = Object.values(TYPES).find(({ name }) => name === typeName);
  const needed = names.filter((name) => typeOf.get(name) === type).length;
  const used = existing && [...existing.values()].filter((code) => code === type?.code).length;
  const free = used === undefined ? '' : `, ${Math.max(0, limit - used)} free`;
  return (
    `${needed} needed${free}, because the server allows ${limit} of type ${typeName} in a namespace. Remove what ` +
    'nothing uses ("temporal operator search-attribute list" and "remove"), or use another namespace (TEMPORAL_NAMESPACE)'
  );
}

function withinLimit<T>(connection: ConnectionLike, call: () => Promise<T>): Promise<T> {
  return connection.withDeadline(Date.now() + CALL_TIMEOUT_MS, call);
}

async function waitUntilQueryable(
  { connection, namespace, names }: Target,
  timeoutMs: number,
  signal?: AbortSignal,
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
      if (status !== GrpcStatus.INVALID_ARGUMENT && !isPassingTrouble(error)) throw error;
      if (performance.now() < deadlineMs) await pause(QUERYABLE_INTERVAL_MS, signal);
      else {
        const problem = `does not accept queries with ${names.join(', ')} (${describeGrpcError(error)})`;
        throw new SearchAttributesError(`namespace ${namespace} ${problem}: run "follow-up setup"`, { cause: error });
      }
    }
  }
}
