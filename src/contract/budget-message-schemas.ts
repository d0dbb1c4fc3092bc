import { z } from 'zod';
import { grantedBefore, sendOutcomes, type AcquireRequest, type BudgetWord } from './budget-messages.js';
import { instantMsSchema } from './durations.js';
import { lanes } from './choices.js';
import type { InputIssue } from './failures.js';
import { boundedIssues, parseInput } from './validation.js';

/** Ids and texts of messages to a budget; longer than any that follow-ups send. */
const text = z.string().min(1).max(1_000);
const sendNumber = z.int().min(1);
const durationMs = z.number().min(0).max(31_536_000_000);

const acquireRequestSchema: z.ZodType<AcquireRequest> = z.object({
  workflowId: text,
  sendNumber,
  jobId: text,
  lane: z.enum(lanes),
  token: text,
  hold: z.boolean(),
  withdraw: z.literal(true).exactOptional(),
  grantedBefore: z.enum(grantedBefore).exactOptional(),
  askNumber: z.int().min(1).exactOptional(),
  provenNotSent: z.literal(true).exactOptional(),
  ledgerSinceMs: instantMsSchema.exactOptional(),
  messageTag: z.string().regex(/^[\w-]{8}$/),
  attemptScheduledAtMs: instantMsSchema,
  firstRunStartedAtMs: instantMsSchema,
  leaseMs: durationMs,
  drainMs: durationMs,
  ceiling: z.object({ limit: z.int().min(0), windowMs: durationMs }).exactOptional(),
});

/** What a budget takes for asks: anything else would fail its task, and with it every follow-up of the project. */
export const acquireRequestsSchema = z.array(acquireRequestSchema).min(1).max(1_000);

const leaving = {
  workflowId: text,
  jobId: text,
  sendNumber,
  outcome: z.enum(sendOutcomes).exactOptional(),
  lastJobSeen: z
    .object({
      status: z.string().max(1_000).nullable(),
      prLinkHash: z.string().max(100).nullable(),
      archivedAt: z.string().max(1_000).nullable(),
    })
    .exactOptional(),
};

const budgetWordSchema: z.ZodType<BudgetWord> = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('settle'),
    workflowId: text,
    sendNumber,
    token: text,
    outcome: z.enum(sendOutcomes),
    retryAfterMs: durationMs.exactOptional(),
    message: z.string().max(1_000).exactOptional(),
    statusCode: z.int().min(100).max(999).exactOptional(),
  }),
  z.object({ kind: z.literal('finish'), ...leaving }),
  z.object({ kind: z.literal('withdraw'), ...leaving }),
  z.object({ kind: z.literal('keyRead'), isRefused: z.boolean() }),
]);

/** Words that one report carries at most. */
export const MAX_WORDS_PER_REPORT = 100;

const reportSchema = z.array(z.unknown()).max(MAX_WORDS_PER_REPORT);

/**
 * The words of a report that make sense. A signal cannot be refused, and one bad word must not lose the good ones: it is
 * left out, and so is a report that is no list of at most {@link MAX_WORDS_PER_REPORT}.
 */
export function readReport(report: unknown): { words: BudgetWord[]; issues: InputIssue[] } {
  const parsed = parseInput(reportSchema, report);
  if (!parsed.ok) return { words: [], issues: parsed.issues };
  const words: BudgetWord[] = [];
  const issues: InputIssue[] = [];
  for (const each of parsed.value) {
    const word = parseInput(budgetWordSchema, each);
    if (word.ok) words.push(word.value);
    else issues.push(...word.issues);
  }
  return { words, issues: boundedIssues(issues) };
}
