import { z } from 'zod';
import { defineQuery, defineUpdate, object } from '../common/index.js';
import type { Lane } from './choices.js';
import { durationSchema } from './durations.js';
import { keySchema } from './ids.js';

/** Outcomes of a send. */
export const sendOutcomes = [
  'sent',
  'rejected',
  'notFound',
  'unknown',
  'notSent',
  'limited',
  'credentials',
  'payment',
] as const;
export type SendOutcome = (typeof sendOutcomes)[number];

/** Why a service takes no messages of a project: HTTP 429, 401 or 403, 402, or no clear response to three messages in a row. */
export const refusals = ['limited', 'credentials', 'payment', 'outage'] as const;
export type Refusal = (typeof refusals)[number];

/**
 * Why a follow-up waits. `job-busy`: its job works on another message, or another follow-up has the job's turn.
 * `counting`: the budget does not yet know all sends of its window, and counts them.
 */
export const waitReasons = ['slot', 'job-busy', 'paused', ...refusals, 'queue-full', 'counting'] as const;
export type WaitReason = (typeof waitReasons)[number];

/** Further reasons that block a follow-up. `not-served`: by the workers' settings. `service`: its job cannot be read. */
export const blockReasons = ['budget-stopped', 'budget-silent', 'not-served', 'service'] as const;
export type BlockReason = (typeof blockReasons)[number];

/** Why a budget is paused. An `operator`'s pause stops all sends; otherwise one send at a time probes the service. */
export type PauseReason = 'operator' | Refusal;

/** Result of the `budgetStatus` query. All times are ISO 8601 in UTC. */
export interface BudgetStatus {
  projectId: string;
  /** Messages in a window. */
  limit: number;
  windowMs: number;
  /** Slots kept free of the batch lane. */
  reserve: number;
  /** Slots in use. */
  used: number;
  /** Granted sends whose outcome is not known yet. */
  underWay: number;
  /** When the next slot can be granted again. */
  nextFreeSlotAt?: string;
  /** What the service did not clearly accept, of the messages in `lastSends` that are at most a window old. */
  refused?: RefusedMessages[];
  /** Least time between two sends, since the service answered 429 while slots were free. */
  spacingMs?: number;
  /** Whether it counts sends of its window that it does not know, before it grants anything. */
  isCounting?: true;
  /** The budget remembers what follow-ups did since this time. */
  remembersSince: string;
  /**
   * `since` and `until` span all reasons. A pause without `until` lasts until `resume` or, with `isProbed`, until the
   * service accepts the message that is tried. `statusCode` is that of the service's latest refusal, and `note` the
   * operator's.
   */
  paused?: {
    reasons: PauseReason[];
    since: string;
    until?: string;
    isProbed?: true;
    statusCode?: number;
    note?: string;
  };
  /** Whether somebody has tried to cancel it, which it refuses: follow-ups depend on it. */
  cancelRefused?: boolean;
  /** The first 20 in line, in order, and the one that the query is about. */
  waiting: BudgetWaiter[];
  waitingTotal: number;
  waitingInBatchLane: number;
  /** Follow-ups whose job is busy, in both lanes. */
  waitingForJob: number;
  /** The last sends, as many as `limit`, but at least 100 and at most 1,000. Newest first. */
  lastSends: BudgetSend[];
}

/** Messages whose last send met the same response. */
export interface RefusedMessages {
  /** `outage`: it is not known whether they were delivered. */
  reason: Refusal;
  /** HTTP status; missing if there was no response. */
  statusCode?: number;
  /** Number of these messages. */
  messages: number;
  /** Number of messages that were sent. */
  of: number;
  /** How many of the `of` messages were accepted. 0 if none was accepted since the first refusal. */
  accepted: number;
}

/** A follow-up in line. */
export interface BudgetWaiter {
  workflowId: string;
  lane: Lane;
  /** 1 is next; missing while it waits for its job. */
  position?: number;
  expectedAt?: string;
  /** Set while the service refuses only this message: the reason, the HTTP status, and the time of the next try. */
  refusal?: { reason: Refusal; statusCode?: number; until: string };
}

/** A send that the budget granted or learned of, or slots that were taken for other messages. */
export interface BudgetSend {
  /** `take/{key}` for taken slots. */
  workflowId: string;
  /** For taken slots, their number. */
  sendNumber: number;
  grantedAt: string;
  outcomeAt?: string;
  outcome?: SendOutcome | 'taken';
  /** HTTP status of the service's response. */
  statusCode?: number;
}

/**
 * The status of a budget. `nowMs` is the caller's time in epoch milliseconds: without it, an idle workflow answers for
 * the time of its last event. `about` is the workflow id of a follow-up that `waiting` always includes.
 */
export const budgetStatusQuery = defineQuery<BudgetStatus, [nowMs?: number, about?: string]>('budgetStatus');

const limitRule = 'must be from 0 to 10000';
const countRule = 'must be from 1 to 10000';
const wholeRule = 'must be a whole number';

/** New settings of a budget. Missing fields stay unchanged. */
export const setLimitInputSchema = object({
  /** Messages per window; 0 stops all sends. */
  limit: z.int(wholeRule).min(0, limitRule).max(10_000, limitRule).optional(),
  /** Length of the rolling window, as a duration. */
  window: durationSchema('1s', '365d').optional(),
  /** Slots kept free of the batch lane; below the limit. */
  reserve: z.int(wholeRule).min(0, 'must be at least 0').optional(),
})
  .strict()
  .refine((input) => Object.keys(input).length > 0, 'must set at least one of limit, window, reserve')
  .refine(({ limit, reserve = 0 }) => limit === undefined || reserve === 0 || reserve < limit, {
    path: ['reserve'],
    error: 'must be below limit',
  });
export type SetLimitInput = z.input<typeof setLimitInputSchema>;

/** An operator's pause. */
export const pauseInputSchema = object({
  /** Duration after which the pause ends. @default until it is resumed */
  for: durationSchema('1s', '365d').optional(),
  /** Shown with the pause. */
  note: z.string().max(200, 'must be at most 200 characters').optional(),
}).strict();
export type PauseInput = z.input<typeof pauseInputSchema>;

/** Slots to take for messages that other software sends. */
export const takeInputSchema = object({
  /** Number of slots, at most the limit. @default 1 */
  count: z.int(wholeRule).min(1, countRule).max(10_000, countRule).default(1),
  /** A key takes slots only once. The budget remembers the last 2,000 keys and follow-ups, fewer if they are long. */
  key: keySchema,
}).strict();
export type TakeInput = z.input<typeof takeInputSchema>;

/** Whether the slots were taken, all or none. Times are ISO 8601 in UTC. */
export type TakeReply =
  | { taken: true; count: number; takenAt: string }
  /** `possibleAt`: when that many slots should be free, if known. */
  | { taken: false; count: number; waitReason: WaitReason; possibleAt?: string };

/**
 * Changes limit, window or reserve of a running budget. Slots in use above a new limit stay in use until they expire.
 */
export const setLimitUpdate = defineUpdate<BudgetStatus, [SetLimitInput]>('setLimit');
/** Stops sends until resumed. Sends in progress continue. */
export const pauseUpdate = defineUpdate<BudgetStatus, [PauseInput]>('pause');
/** Counts slots as used for messages that other software sends: all or none, once per key. */
export const takeUpdate = defineUpdate<TakeReply, [TakeInput]>('take');
/** Ends the operator's pause. If the service refuses messages, the next send probes at once. */
export const resumeUpdate = defineUpdate<BudgetStatus>('resume');
