/**
 * What the workflows and activities of this project say to each other. Not part of the published contract.
 *
 * @module
 */
import { z } from 'zod';
import { type SendOutcome, sendOutcomes, type WaitReason } from './budget-messages.js';
import { type Lane, lanes } from './choices.js';
import { instantMsSchema } from './durations.js';
import type { InputIssue } from './failures.js';
import { idSchema } from './ids.js';
import { defineQuery, defineSignal, defineUpdate } from './names.js';
import { boundedIssues, parseInput } from './validation.js';

/** How a job looked at the end of a turn, small enough to keep. `prLinkHash` is `hash64` of the link. */
export interface JobFingerprint {
  status: string | null;
  prLinkHash: string | null;
  archivedAt: string | null;
}

/** What a follow-up knows of earlier asks for its send; see {@link AcquireRequest}. */
const grantedBefore = ['surely', 'perhaps'] as const;
export type GrantedBefore = (typeof grantedBefore)[number];

/** A pause that keeps a follow-up from being sent, as its budget told it. */
export interface ToldPause {
  /** `service`: it answered 429. */
  by: 'operator' | 'service';
  /** In epoch milliseconds; missing if the pause lasts until it is resumed. */
  untilMs?: number;
  /** The operator's. */
  note?: string;
}

/** The most that a worker's configuration lets any budget grant, whatever the budget's own limit and window say. */
export interface BudgetCeiling {
  /** Messages per window. */
  limit: number;
  windowMs: number;
}

/** One ask for a slot and the job's turn. */
export interface AcquireRequest {
  /** Workflow id of the follow-up. With `sendNumber` it is the request id. */
  workflowId: string;
  /** 1 for the first send of this follow-up; one more after each send that is proven not delivered. */
  sendNumber: number;
  jobId: string;
  lane: Lane;
  /** Random, created for each invocation of the activity and kept only in its memory. */
  token: string;
  /** Give or keep a place, but never grant. */
  hold: boolean;
  /** Leave the queue. The answer is `closed` if nothing was granted, and then nothing will be. */
  withdraw?: true;
  /**
   * An earlier attempt of this send was granted and may have sent (`surely`), or the run replaces another that may have
   * (`perhaps`). A budget that does not know of it has forgotten it, or has replaced one that was deleted.
   */
  grantedBefore?: GrantedBefore;
  /**
   * How many asks the follow-up has made, including this one. The attempts of one activity share a number. Missing if
   * the run replaces another, which may ask too.
   */
  askNumber?: number;
  /** No ask of this follow-up with a lower `askNumber` has sent or can send, so the budget may take back its grant. */
  provenNotSent?: true;
  /** The `ledgerSinceMs` of an earlier {@link AcquireAnswer}. */
  ledgerSinceMs?: number;
  /** Identifies the message, as `messageTag` in `src/follow-up` makes it. Kept with the grant. */
  messageTag: string;
  /** Server time at which this attempt of the activity was scheduled, in epoch milliseconds. */
  attemptScheduledAtMs: number;
  /** Start of the follow-up's first run, in epoch milliseconds. */
  firstRunStartedAtMs: number;
  /** How long after the grant the sender has stopped for certain, in milliseconds. */
  leaseMs: number;
  /** How long after the lease bytes may still arrive, because of kernel retransmits or gateways. */
  drainMs: number;
  /** Applies in addition to the budget's own limit and window. @default none */
  ceiling?: BudgetCeiling;
}

/** The budget's answer to an {@link AcquireRequest}. It answers at once and never holds an ask open. */
export type AcquireAnswer =
  /**
   * Slot and job turn are taken: send after `sendAfterMs`, or at once if it is missing. A slot that is about to end is
   * granted ahead, so that it is used from its first instant, which is `grantedAtMs`. `isAwaited`: the end of this send
   * may let another start, so the budget needs to know it at once.
   */
  | {
      kind: 'granted';
      grantedAtMs: number;
      sendAfterMs?: number;
      isAwaited?: true;
      lastJobSeen?: JobFingerprint;
      ledgerSinceMs: number;
    }
  /** This request was granted before, and the outcome of its send is known. `statusCode`: of a rejection. */
  | {
      kind: 'done';
      outcome: SendOutcome;
      grantedAtMs?: number;
      settledAtMs?: number;
      message?: string;
      statusCode?: number;
      lastJobSeen?: JobFingerprint;
      messageTag?: string;
    }
  /** This request was granted before, and the outcome of its send is not known (yet). */
  | {
      kind: 'alreadyGranted';
      leaseLeftMs: number;
      drainLeftMs: number;
      grantedAtMs?: number;
      lastJobSeen?: JobFingerprint;
      messageTag?: string;
    }
  /**
   * Ask again after `waitMs`, or when woken. `etaMs`: expected wait until the grant, `null` if unknown.
   * `ledgerSinceMs`: since when this budget, including budgets whose state it took over, has a complete record.
   * `pause`: given with the reason `paused`. `askInPlaceAfterMs`: given if only sends in flight are in the way. They start
   * within this time, and are expected to be over by `waitMs`. Going back to the workflow would take longer.
   */
  | {
      kind: 'wait';
      reason: WaitReason;
      waitMs: number;
      position: number;
      etaMs: number | null;
      ledgerSinceMs?: number;
      pause?: ToldPause;
      askInPlaceAfterMs?: number;
    }
  /** The follow-up has ended or was withdrawn; it is never granted again. */
  | { kind: 'closed' }
  /** The ask was overtaken by a newer one, or is too old; nothing was changed. */
  | { kind: 'stale' };

/** How a granted send ended. Only the token that owns the grant counts, and only the first time. */
export interface SettleMessage {
  workflowId: string;
  sendNumber: number;
  token: string;
  outcome: SendOutcome;
  /** How long ago the send was over when this message left the sender, by its monotonic clock. @default 0 */
  agoMs?: number;
  /** From a 429's Retry-After. */
  retryAfterMs?: number;
  /** The service's words for a rejected message, cut short. */
  message?: string;
  /** HTTP status of a rejection. */
  statusCode?: number;
}

/** A follow-up has ended, or (`withdraw`) leaves without having been sent. Leaves a tombstone. */
export interface LeaveMessage {
  workflowId: string;
  jobId: string;
  sendNumber: number;
  /** Repeats the outcome of the last send, in case the settle was lost. */
  outcome?: SendOutcome;
  /** The job as this turn left it. */
  lastJobSeen?: JobFingerprint;
}

/** What a read of the job says about the project's key. */
export interface KeyReadMessage {
  /** `true`: the service answered 401 or 403, or there is no key. `false`: the key is accepted again. */
  isRefused: boolean;
}

/** What a budget is told. `finish` and `withdraw` both say that a follow-up has ended. */
export type BudgetWord =
  | ({ kind: 'settle' } & SettleMessage)
  | ({ kind: 'finish' | 'withdraw' } & LeaveMessage)
  | ({ kind: 'keyRead' } & KeyReadMessage);

/** Several asks at once, and words that the budget hears before; one answer for each ask, in the same order. */
export const acquireUpdate = defineUpdate<AcquireAnswer[], [AcquireRequest[], BudgetWord[]]>('acquire');
/** Several words at once, applied in order. Invalid ones are ignored. */
export const reportSignal = defineSignal<[BudgetWord[]]>('report');
/** The whole state of a budget, open or closed, to restore it from. */
export const carriedStateQuery = defineQuery<unknown>('carriedState');

/** From the budget: ask again now. It may be lost, late or doubled without harm. */
export const wakeSignal = defineSignal('wake');

/** Asks whether a follow-up still runs. Only its failure means anything. */
export const stillThereSignal = defineSignal('stillThere');

/** Details of the latest failure of a watch, for people and for programs that count its polls. */
export interface NothingNewDetails {
  looks: number;
  /** When the job was read, in epoch milliseconds; `null` if it was too early for that. */
  lookedAtMs: number | null;
  /** What was wrong with the read; `null` if nothing was. */
  trouble: string | null;
}

/** Settings of a budget. Defaults for a new project come from the worker's configuration. */
export const budgetSettingsSchema = z
  .strictObject({
    /** Messages per window. @default 100 */
    limit: z.int().min(0).max(10_000),
    /** In milliseconds. @default 3_600_000 (1 h) */
    windowMs: z
      .int()
      .min(1_000)
      .max(365 * 86_400_000),
    /** Slots kept free of the batch lane; below `limit`. @default 0 */
    reserve: z.int().min(0),
    /** How much longer than the window a slot is held: the clocks of the service and Temporal differ. @default 2_000 */
    marginMs: z.int().min(0).max(3_600_000),
    /** Largest `limit` that `setLimit` accepts until a worker's ask brings its own ceiling. @default no bound */
    maxLimit: z.int().min(0).max(10_000).exactOptional(),
  })
  .refine(({ limit, reserve }) => reserve === 0 || reserve < limit, {
    path: ['reserve'],
    message: 'must be below limit',
  });
export type BudgetSettings = z.infer<typeof budgetSettingsSchema>;

/** First argument of the `projectBudget` workflow. */
export const projectBudgetInputSchema = z.strictObject({
  projectId: idSchema,
  settings: budgetSettingsSchema,
  /** State of a budget that was terminated, as `carriedState` returned it. */
  restored: z.unknown().optional(),
  /** The state of the previous budget is lost: every slot counts as used, and every older follow-up as sent. */
  assumeFull: z.literal(true).optional(),
  /**
   * With `assumeFull`: until when sends of the previous budget may reach the service, in epoch milliseconds. Every slot
   * is held for window and margin after that. @default now
   */
  inFlightUntilMs: instantMsSchema.optional(),
});
export type ProjectBudgetInput = z.infer<typeof projectBudgetInputSchema>;

/** Failure type of a budget's run that somebody reset. */
export const BUDGET_RESET = 'BudgetReset';

/** Ids and texts in messages to a budget. No follow-up sends longer ones. */
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

/** The asks that a budget accepts. Anything else would fail its task, and with it every follow-up of the project. */
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
    agoMs: durationMs.exactOptional(),
    retryAfterMs: durationMs.exactOptional(),
    message: z.string().max(1_000).exactOptional(),
    statusCode: z.int().min(100).max(999).exactOptional(),
  }),
  z.object({ kind: z.literal('finish'), ...leaving }),
  z.object({ kind: z.literal('withdraw'), ...leaving }),
  z.object({ kind: z.literal('keyRead'), isRefused: z.boolean() }),
]);

/** Most words that one report carries. */
export const MAX_WORDS_PER_REPORT = 100;

const reportSchema = z.array(z.unknown()).max(MAX_WORDS_PER_REPORT);

/**
 * The valid words of a report. A signal cannot be refused, and one bad word must not lose the good ones, so bad words are
 * left out. A report that is not a list of at most {@link MAX_WORDS_PER_REPORT} words has no valid ones.
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
