import { z } from 'zod';
import type { Lane } from './choices.js';
import { durationSchema } from './durations.js';
import { keySchema } from './ids.js';
import { defineQuery, defineUpdate } from './names.js';
import { object } from './validation.js';

/** How a send ended, as far as is known. */
export const sendOutcomes = ['sent', 'rejected', 'unknown', 'notSent', 'limited', 'unauthorized', 'payment'] as const;
export type SendOutcome = (typeof sendOutcomes)[number];

/** Why the service refuses all messages of a project: HTTP 429, 401 or 403, 402. */
export const refusals = ['limited', 'credentials', 'payment'] as const;
export type Refusal = (typeof refusals)[number];

/**
 * Why a follow-up waits. `job-busy`: its job works on another message, or another follow-up has the job's turn.
 * `counting`: the budget started afresh and finds out what was sent before it.
 */
export const waitReasons = ['slot', 'job-busy', 'paused', ...refusals, 'queue-full', 'counting'] as const;
export type WaitReason = (typeof waitReasons)[number];

/** Why a follow-up is blocked, in addition to {@link waitReasons}. `service`: its job cannot be read. */
export const blockReasons = ['budget-stopped', 'budget-silent', 'service'] as const;
export type BlockReason = (typeof blockReasons)[number];

/** Why a budget is paused. An `operator`'s pause lets nothing through; else one send at a time probes the service. */
export type PauseReason = 'operator' | Refusal;

/** Answer of the `budgetStatus` query. All times are ISO 8601 in UTC. */
export interface BudgetStatus {
  projectId: string;
  /** Messages in a window. */
  limit: number;
  windowMs: number;
  /** Slots kept free of the batch lane. */
  reserve: number;
  /** Slots occupied now. */
  used: number;
  /** Sends that are granted and not settled. */
  unsettled: number;
  nextFreeSlotAt?: string;
  /** How many messages in a window the service accepts, after it refused some, if that is below the limit. */
  learnedLimit?: number;
  /** It started afresh, and finds out what was sent before it. Until then nothing is granted. */
  isCounting?: true;
  /** What follow-ups did before this, the budget does not remember. */
  remembersSince: string;
  /** `since` and `until` span all reasons. A pause without `until` lasts until it is resumed. `note` is the operator's. */
  paused?: { reasons: PauseReason[]; since: string; until?: string; note?: string };
  /** The first 20 in line, in the order of their turns, and the one that the query is about. */
  waiting: BudgetWaiter[];
  waitingTotal: number;
  waitingInBatchLane: number;
  /** Those whose job is busy, in either lane. */
  waitingForJob: number;
  /** The sends of the last window, at least the last 100 and at most the last 1,000. Newest first. */
  lastSends: BudgetSend[];
}

/** A follow-up that waits for its slot. */
export interface BudgetWaiter {
  workflowId: string;
  lane: Lane;
  /** 1 for the next; missing while it waits for its job. */
  position?: number;
  expectedAt?: string;
  /** The service refuses its message while it accepts others: why, and when it is tried again. */
  refusal?: { reason: Refusal; until: string };
}

/** A send that the budget granted or heard of, or messages of something else that took slots. */
export interface BudgetSend {
  /** `take/{key}` for slots that were taken. */
  workflowId: string;
  /** For slots that were taken: how many. */
  sendNumber: number;
  grantedAt: string;
  settledAt?: string;
  outcome?: SendOutcome | 'taken';
}

/**
 * The status of a budget. `nowMs` is the caller's time in epoch milliseconds: without it, an idle workflow answers as of
 * its last event. `about` is the workflow id of a follow-up that `waiting` names wherever it stands in the line.
 */
export const budgetStatusQuery = defineQuery<BudgetStatus, [nowMs?: number, about?: string]>('budgetStatus');

const limitRule = 'must be from 0 to 10000';
const countRule = 'must be from 1 to 10000';
const wholeRule = 'must be a whole number';

/** New settings of a budget. Fields that are left out stay as they are. */
export const setLimitInputSchema = object({
  /** Messages per window; 0 lets nothing through. */
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

/** Slots to take for messages that something else sends. */
export const takeInputSchema = object({
  /** How many, at most the limit. @default 1 */
  count: z.int(wholeRule).min(1, countRule).max(10_000, countRule).default(1),
  /** The same key takes slots only once. The budget remembers its last 2,000 keys and follow-ups, or fewer if they are long. */
  key: keySchema,
}).strict();
export type TakeInput = z.input<typeof takeInputSchema>;

/** Whether slots were taken: all that were asked for, or none. Instants are ISO 8601 in UTC. */
export type TakeAnswer =
  | { taken: true; count: number; takenAt: string }
  /** `possibleAt`: when so many slots are expected to be free, if that is known. */
  | { taken: false; count: number; waitReason: WaitReason; possibleAt?: string };

/** Changes limit, window or reserve of a running budget. If more slots are used than the new limit has, they drain. */
export const setLimitUpdate = defineUpdate<BudgetStatus, [SetLimitInput]>('setLimit');
/** Lets nothing through until resumed. Sends under way continue. */
export const pauseUpdate = defineUpdate<BudgetStatus, [PauseInput]>('pause');
/** Counts slots as used for messages that something else sends, all or none, and once per key. */
export const takeUpdate = defineUpdate<TakeAnswer, [TakeInput]>('take');
/** Ends the operator's pause. If the service refuses messages, the next send probes at once. */
export const resumeUpdate = defineUpdate<BudgetStatus>('resume');
