import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectionLike } from '@temporalio/client';
import { SearchAttribute } from '../contract/index.js';
import { describeGrpcError, GrpcStatus, grpcStatusOf } from './grpc.js';

/** `INDEXED_VALUE_TYPE_KEYWORD` of Temporal's API. */
const KEYWORD = 2;

/** The server reads attributes from a cache that may be a minute old. */
const QUERYABLE_TIMEOUT_MS = 90_000;
const QUERYABLE_INTERVAL_MS = 500;

/** The search attributes are missing and cannot be added; a workflow that sets them would get stuck. */
export class SearchAttributesError extends Error {
  override readonly name = 'SearchAttributesError';
}

/** What {@link ensureSearchAttributes} did. */
interface SearchAttributesReport {
  /** Names of the attributes that were missing before. */
  added: string[];
}

/**
 * Registers missing search attributes of follow-ups, and waits until the server accepts queries with
 * them. May be called by many workers at once.
 *
 * @throws SearchAttributesError if they are missing and may not be registered, or exist with another type
 */
export async function ensureSearchAttributes(
  connection: ConnectionLike,
  namespace: string,
  { timeoutMs = QUERYABLE_TIMEOUT_MS }: { timeoutMs?: number } = {},
): Promise<SearchAttributesReport> {
  const names = Object.values(SearchAttribute).map(({ name }) => name);
  const existing = await listAttributes(connection, namespace);
  const wrong = names.filter((name) => existing?.has(name) && existing.get(name) !== KEYWORD);
  if (wrong.length > 0) {
    throw new SearchAttributesError(
      `namespace ${namespace} has ${wrong.join(', ')} with another type than Keyword: remove them ` +
        '("temporal operator search-attribute remove") and run "follow-up setup"',
    );
  }
  const missing = names.filter((name) => !existing?.has(name));
  const added = missing.length === 0 ? [] : await addAttributes(connection, namespace, missing, existing !== undefined);
  await waitUntilQueryable(connection, namespace, names, timeoutMs);
  return { added };
}

/** Types by name; `undefined` if the server cannot list them, like the time-skipping test server. */
async function listAttributes(connection: ConnectionLike, namespace: string): Promise<Map<string, number> | undefined> {
  try {
    const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
    return new Map(Object.entries(customAttributes));
  } catch (error) {
    const status = grpcStatusOf(error);
    if (status === GrpcStatus.unimplemented || status === GrpcStatus.permissionDenied) return undefined;
    throw error;
  }
}

async function addAttributes(
  connection: ConnectionLike,
  namespace: string,
  names: string[],
  knownMissing: boolean,
): Promise<string[]> {
  try {
    await connection.operatorService.addSearchAttributes({
      namespace,
      searchAttributes: Object.fromEntries(names.map((name) => [name, KEYWORD])),
    });
    return names;
  } catch (error) {
    const status = grpcStatusOf(error);
    // Another worker was faster.
    if (status === GrpcStatus.alreadyExists) return [];
    // Whether they are missing is unknown: the query will tell.
    if (!knownMissing && (status === GrpcStatus.unimplemented || status === GrpcStatus.permissionDenied)) return [];
    throw new SearchAttributesError(
      `namespace ${namespace} lacks the search attributes ${names.join(', ')}, and they may not be registered with ` +
        `these credentials (${describeGrpcError(error)}): run "follow-up setup" with credentials that may`,
      { cause: error },
    );
  }
}

async function waitUntilQueryable(
  connection: ConnectionLike,
  namespace: string,
  names: string[],
  timeoutMs: number,
): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs;
  const query = names.map((name) => `${name} = "none"`).join(' AND ');
  for (;;) {
    try {
      await connection.workflowService.listWorkflowExecutions({ namespace, pageSize: 1, query });
      return;
    } catch (error) {
      const status = grpcStatusOf(error);
      if (status === GrpcStatus.unimplemented) return;
      if (status !== GrpcStatus.invalidArgument && status !== GrpcStatus.unavailable) throw error;
      if (performance.now() >= deadlineMs) {
        throw new SearchAttributesError(
          `namespace ${namespace} does not take queries with ${names.join(', ')} ` +
            `(${describeGrpcError(error)}): run "follow-up setup"`,
          { cause: error },
        );
      }
    }
    await sleep(QUERYABLE_INTERVAL_MS);
  }
}
