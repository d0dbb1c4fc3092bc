import { z } from 'zod';
import type { Lane } from './choices.js';
import { durationSchema } from './durations.js';
import { defineQuery, defineUpdate } from './names.js';

/** How one send ended, as the budget records it. */
export const sendOutcomes = ['sent', 'notSent', 'rejected', 'unauthorized', 'limited', 'unknown'] as const;
export type SendOutcome = (typeof sendOutcomes)[number];

/** Why a budget is paused. It lets one probe through at a time, or none if an `operator` paused it. */
export type PauseReason = 'operator' | 'limited' | 'credentials';

/**
 * Why a follow-up waits for its budget. Two reasons are not the budget's own words: `gate-stopped`, its workflow has
 * ended, and `budget-silent`, it runs but does not answer (it is paused in Temporal, its tasks fail, or it has no worker).
 */
export const waitReasons = [
  'slot',
  'job-busy',
  'paused',
  'credentials',
  'queue-full',
  'gate-stopped',
  'budget-silent',
] as const;
export type WaitReason = (typeof waitReasons)[number];

/** Answer of the `budgetStatus` query. All times are ISO 8601 in UTC. */
export interface BudgetStatus {
  projectId: string;
  limit: number;
  windowMs: number;
  /** Slots kept free of the batch lane. */
  reserve: number;
  /** Slots occupied now. */
  used: number;
  /** Sends that are granted and not settled. */
  unsettled: number;
  /** When the next occupied slot ends. */
  nextFreeSlotAt?: string;
  /**
   * `since` and `until` span all reasons. A pause without `until` ends when it is resumed. `note` is the operator's.
   */
  paused?: { reasons: PauseReason[]; since?: string; until?: string; note?: string };
  /** At most the first 100, in the order of their turns, and the one that the query is about. */
  waiting: BudgetWaiter[];
  /** After refusals by the service: milliseconds between two sends. */
  pacedEveryMs?: number;
  /**
   * The previous budget was deleted with its state while its follow-ups still run. Until this time every slot counts as
   * used.
   */
  assumedFullUntil?: string;
  waitingTotal: number;
  /** How many of them are in the batch lane. The others are in the interactive lane. */
  waitingInBatchLane: number;
  /** How many of them wait for their job, in either lane. */
  waitingForJob: number;
  /** Newest first, at most 100. */
  lastSends: BudgetSend[];
}

/** A follow-up that waits for its slot. */
export interface BudgetWaiter {
  workflowId: string;
  jobId: string;
  lane: Lane;
  /** 1 for the next; missing while it waits for its job. */
  position?: number;
  /** When its slot is expected to be granted. */
  expectedAt?: string;
  /** When the budget woke it because its slot is free; it has not asked since. */
  calledAt?: string;
}

/** A send that the budget granted. */
export interface BudgetSend {
  workflowId: string;
  jobId: string;
  sendNumber: number;
  grantedAt: string;
  /** When the send was over. */
  settledAt?: string;
  outcome?: SendOutcome;
}

/**
 * The status of a budget. The argument is the caller's time in epoch milliseconds: an idle workflow does not know the
 * time, and without the argument it answers as of its last event. `about` is the workflow id of a follow-up that
 * `waiting` names wherever it stands in the line.
 */
export const budgetStatusQuery = defineQuery<BudgetStatus, [nowMs?: number, about?: string]>('budgetStatus');

const limitRule = 'must be from 0 to 10000';

/** New settings of a budget. Fields that are left out stay as they are. */
export const setLimitInputSchema = z
  .strictObject({
    /** Messages per window; 0 lets nothing through. */
    limit: z.int('must be a whole number').min(0, limitRule).max(10_000, limitRule).optional(),
    /** Length of the rolling window, as a duration. */
    window: durationSchema('1s', '365d').optional(),
    /** Slots kept free of the batch lane; below the limit. */
    reserve: z.int('must be a whole number').min(0, 'must be from 0').optional(),
  })
  .refine((input) => Object.keys(input).length > 0, 'must set at least one of limit, window, reserve')
  .refine(({ limit, reserve = 0 }) => limit === undefined || reserve === 0 || reserve < limit, {
    path: ['reserve'],
    message: 'must be below limit',
  });
export type SetLimitInput = z.input<typeof setLimitInputSchema>;

/** An operator's pause. */
export const pauseInputSchema = z.strictObject({
  /** Duration after which the pause ends. @default until it is resumed */
  for: durationSchema('1s', '365d').optional(),
  /** Shown with the pause. */
  note: z.string().max(200, 'must be at most 200 characters').optional(),
});
export type PauseInput = z.input<typeof pauseInputSchema>;

/** Changes limit, window or reserve of a running budget. If more slots are used than the new limit, they drain. */
export const setLimitUpdate = defineUpdate<BudgetStatus, [SetLimitInput]>('setLimit');
/** Lets nothing through until resumed. Sends under way continue. */
export const pauseUpdate = defineUpdate<BudgetStatus, [PauseInput]>('pause');
/** Ends the operator's pause, and lets the next follow-up try whether the service accepts messages again. */
export const resumeUpdate = defineUpdate<BudgetStatus>('resume');
