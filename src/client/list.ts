import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { z } from 'zod';
import { defined } from '../contract/defined.js';
import {
  followUpStates,
  idSchema,
  keySchema,
  parseDurationMs,
  parseInput,
  SearchAttribute,
  WorkflowType,
} from '../contract/index.js';
import { InvalidInputError } from './errors.js';
import { BudgetAnswers, type BudgetPlace, readActivities, readPlaces } from './live-progress.js';
import type { PendingAsk, PendingWatch } from './pending.js';
import { type FollowUpSummary, toFollowUpSummary } from './summary.js';
import { callTemporal } from './temporal-call.js';
import { DURATION_RULE } from '../contract/durations.js';
import { MAX_KEYWORD_LENGTH } from '../contract/names.js';

const SINCE_RULE = `must be an instant such as "2026-11-22T08:00:00Z" or a duration: it ${DURATION_RULE}`;

const filterSchema = z.strictObject({
  project: idSchema.optional(),
  job: idSchema.optional(),
  pr: z
    .string()
    .max(MAX_KEYWORD_LENGTH, `must be at most ${MAX_KEYWORD_LENGTH} characters: longer links are not listed`)
    // Nothing in it can close the quotes of a query.
    .regex(/^https?:\/\/[^\s'"\\]+$/, 'must be a web address')
    .optional(),
  since: z
    .union([z.string(), z.number()], { error: SINCE_RULE })
    .refine((since) => sinceMs(since, 0) !== undefined, SINCE_RULE)
    .optional(),
  state: z.enum(followUpStates).optional(),
  batch: keySchema.optional(),
});

/** In epoch milliseconds. */
function sinceMs(since: string | number, nowMs: number): number | undefined {
  const durationMs = parseDurationMs(since);
  if (durationMs !== undefined) return nowMs - durationMs;
  return z.iso.datetime({ offset: true }).safeParse(since).success ? Date.parse(String(since)) : undefined;
}

/** Which follow-ups to list. Default: all. */
export interface ListFilter {
  /** Only this project's. */
  project?: string;
  /** Only this job's. */
  job?: string;
  /** Only those whose turn showed this pull request. */
  pr?: string;
  /** Only those started since: an instant in ISO 8601 with its offset, or a duration back from now. */
  since?: string | number;
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
export function listQuery(filter: ListFilter, nowMs = Date.now()): string {
  const parsed = parseInput(filterSchema, filter);
  if (!parsed.ok) throw new InvalidInputError(parsed.issues);
  const { project, job, pr, since, state, batch } = parsed.value;
  const fromMs = since === undefined ? undefined : sinceMs(since, nowMs);
  const conditions: [name: string, value: string | undefined][] = [
    ['WorkflowType =', WorkflowType.followUp],
    [`${SearchAttribute.projectId.name} =`, project],
    [`${SearchAttribute.jobId.name} =`, job],
    [`${SearchAttribute.prLink.name} =`, pr],
    [`${SearchAttribute.state.name} =`, state],
    [`${SearchAttribute.batchId.name} =`, batch],
    ['StartTime >=', fromMs === undefined ? undefined : new Date(fromMs).toISOString()],
  ];
  return conditions
    .filter(([, value]) => value !== undefined)
    .map(([comparison, value]) => `${comparison} '${value}'`)
    .join(' AND ');
}

/** A listed follow-up. */
export interface ListedFollowUp extends FollowUpSummary {
  /** Set if it waits for its slot, and is among the first in its project's queue or the whole project waits. */
  place?: BudgetPlace;
  /** Set if it polls its job, and is one of the newest 100 of the list that may do so. */
  watch?: PendingWatch;
  /** Set if it repeats its ask for a slot, and is one of the newest 100 of the list that may do so. */
  ask?: PendingAsk;
}

/**
 * Runs a query of {@link listQuery}, newest first. Temporal lists running workflows first, then ended ones by their
 * ends: all are read before the first is returned.
 *
 * @throws TemporalUnreachableError, SearchAttributesMissingError
 */
export async function* listNewestFirst(client: Client, query: string): AsyncGenerator<ListedFollowUp> {
  const summaries = await take(listFollowUps(client, query));
  summaries.sort((one, other) => Date.parse(other.startedAt) - Date.parse(one.startedAt));
  const [places, activities] = await Promise.all([
    readPlaces(new BudgetAnswers(client), summaries),
    readActivities(client, summaries),
  ]);
  for (const summary of summaries) {
    const place = places.get(summary.workflowId);
    const pending = activities.get(summary.workflowId);
    yield { ...summary, ...defined({ place }), ...pending };
  }
}

/** The first `most` items. */
export async function take<T>(items: AsyncIterable<T>, most = Infinity): Promise<T[]> {
  const taken: T[] = [];
  for await (const item of items) {
    taken.push(item);
    if (taken.length >= most) break;
  }
  return taken;
}

/** Runs a query of {@link listQuery}, in Temporal's order, page by page while it is iterated. */
export async function* listFollowUps(client: Client, query: string): AsyncGenerator<FollowUpSummary> {
  for await (const info of listWorkflows(client, query)) {
    const summary = toFollowUpSummary(info);
    if (summary) yield summary;
  }
}

/**
 * Runs a query of Temporal's visibility, page by page while it is iterated: running workflows, then the last to end.
 *
 * @throws TemporalUnreachableError, SearchAttributesMissingError
 */
export async function* listWorkflows(client: Client, query: string): AsyncGenerator<WorkflowExecutionInfo> {
  const pages = client.workflow.list({ query })[Symbol.asyncIterator]();
  for (;;) {
    const next = await callTemporal(client, () => pages.next());
    if (next.done) return;
    yield next.value;
  }
}
