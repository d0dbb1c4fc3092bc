import type { Client } from '@temporalio/client';
import { z } from 'zod';
import { object } from '../common/index.js';
import {
  DURATION_RULE,
  followUpStates,
  idSchema,
  keySchema,
  MAX_KEYWORD_LENGTH,
  parseDurationMs,
  SearchAttribute,
  WorkflowType,
} from '../contract/index.js';
import { InvalidInputError } from './client-errors.js';
import { type FollowUpSummary, toFollowUpSummary } from './follow-up-handle.js';
import { listWorkflows } from './temporal.js';

const SINCE_RULE = `must be an instant such as "2026-11-22T08:00:00Z" or a duration: it ${DURATION_RULE}`;

const filterSchema = object({
  project: idSchema.optional(),
  job: idSchema.optional(),
  /** Only follow-ups with this pull request. */
  pr: z
    .string()
    .max(MAX_KEYWORD_LENGTH, `must be at most ${MAX_KEYWORD_LENGTH} characters: longer links are not listed`)
    // It cannot close the quotes of a query.
    .regex(/^https?:\/\/[^\s'"\\]+$/, 'must be a web address')
    .optional(),
  /** Only follow-ups started since then: ISO 8601 with an offset, or a duration back from now. */
  since: z
    .union([z.string(), z.number()], { error: SINCE_RULE })
    .refine((since) => sinceMs(since, 0) !== undefined, SINCE_RULE)
    .optional(),
  state: z.enum(followUpStates).optional(),
  batch: keySchema.optional(),
}).strict();

/** In epoch milliseconds. */
function sinceMs(since: string | number, nowMs: number): number | undefined {
  const durationMs = parseDurationMs(since);
  if (durationMs !== undefined) return nowMs - durationMs;
  return z.iso.datetime({ offset: true }).safeParse(since).success ? Date.parse(String(since)) : undefined;
}

/** Filter for follow-ups. Default: all. */
export type ListFilter = z.input<typeof filterSchema>;

/**
 * Builds the visibility query of a filter.
 *
 * @throws InvalidInputError naming every invalid field
 */
export function listQuery(filter: ListFilter, nowMs = Date.now()): string {
  const { project, job, pr, since, state, batch } = InvalidInputError.check(filterSchema, filter);
  const fromMs = since === undefined ? undefined : sinceMs(since, nowMs);
  // With PostgreSQL, Temporal takes a question mark in a value for a parameter. `listNewestFirst` compares the rest.
  const searched = pr?.split('?', 1)[0];
  const conditions: [name: string, value: string | undefined][] = [
    ['WorkflowType =', WorkflowType.followUp],
    [`${SearchAttribute.projectId.name} =`, project],
    [`${SearchAttribute.jobId.name} =`, job],
    [`${SearchAttribute.prLink.name} ${searched === pr ? '=' : 'STARTS_WITH'}`, searched],
    [`${SearchAttribute.state.name} =`, state],
    [`${SearchAttribute.batchId.name} =`, batch],
    ['StartTime >=', fromMs === undefined ? undefined : new Date(fromMs).toISOString()],
  ];
  return conditions
    .filter(([, value]) => value !== undefined)
    .map(([comparison, value]) => `${comparison} '${value}'`)
    .join(' AND ');
}

/**
 * Runs a query of {@link listQuery}, newest first. Temporal lists running workflows first, then ended ones by end, so
 * all are read before the first is returned.
 *
 * @param pr the filter's
 * @throws TemporalUnreachableError; RefusedError without the search attributes
 */
export async function* listNewestFirst(client: Client, query: string, pr?: string): AsyncGenerator<FollowUpSummary> {
  const summaries: FollowUpSummary[] = [];
  for await (const info of listWorkflows(client, query)) {
    const summary = toFollowUpSummary(info);
    if (summary && (pr === undefined || summary.prLink === pr)) summaries.push(summary);
  }
  yield* summaries.sort((one, other) => Date.parse(other.startedAt) - Date.parse(one.startedAt));
}
