import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { z } from 'zod';
import { followUpStates, idSchema, keySchema, parseInput, SearchAttribute, WorkflowType } from '../contract/index.js';
import { InvalidInputError } from './errors.js';
import { type FollowUpSummary, toFollowUpSummary } from './summary.js';
import { toConnectionError } from './temporal-call.js';

const filterSchema = z.strictObject({
  project: idSchema.optional(),
  state: z.enum(followUpStates).optional(),
  batch: keySchema.optional(),
});

/** Which follow-ups to list; all, where nothing is said. */
export interface ListFilter {
  /** Only this project's. */
  project?: string;
  /** Only those in this state, a `FollowUpState`. */
  state?: string;
  /** Only those of this batch. */
  batch?: string;
}

/**
 * Query of Temporal's visibility for a filter.
 *
 * @throws InvalidInputError naming every bad field
 */
export function listQuery(filter: ListFilter): string {
  const parsed = parseInput(filterSchema, filter);
  if (!parsed.ok) throw new InvalidInputError(parsed.issues);
  const { project, state, batch } = parsed.value;
  const conditions: [name: string, value: string | undefined][] = [
    ['WorkflowType', WorkflowType.followUp],
    [SearchAttribute.projectId.name, project],
    [SearchAttribute.state.name, state],
    [SearchAttribute.batchId.name, batch],
  ];
  return conditions
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name} = '${(value ?? '').replaceAll("'", "''")}'`)
    .join(' AND ');
}

/** Runs a query of {@link listQuery}, newest first, page by page while it is iterated. */
export async function* listFollowUps(client: Client, query: string): AsyncGenerator<FollowUpSummary> {
  for await (const info of listWorkflows(client, query)) {
    const summary = toFollowUpSummary(info);
    if (summary) yield summary;
  }
}

/**
 * Runs a query of Temporal's visibility, newest first, page by page while it is iterated.
 *
 * @throws TemporalUnreachableError, SearchAttributesMissingError
 */
export async function* listWorkflows(client: Client, query: string): AsyncGenerator<WorkflowExecutionInfo> {
  const pages = client.workflow.list({ query })[Symbol.asyncIterator]();
  for (;;) {
    let next;
    try {
      next = await client.withDeadline(Date.now() + 10_000, async () => pages.next());
    } catch (error) {
      throw toConnectionError(client, error) ?? error;
    }
    if (next.done) return;
    yield next.value;
  }
}
