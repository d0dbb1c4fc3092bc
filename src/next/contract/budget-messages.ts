import { z } from 'zod';
import type { Lane } from '../../contract/choices.js';
import { idSchema } from '../../contract/ids.js';
import type { PauseInput, SetLimitInput } from '../../contract/index.js';
import { defineQuery, defineUpdate } from '../../contract/names.js';
import type { Refusal, SendOutcome } from './protocol.js';

/** Why a budget is paused. An `operator` lets nothing through; otherwise one send at a time probes the service. */
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
  /** When the next occupied slot is free. */
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
  /** How many of them are in the batch lane. The others are in the interactive lane. */
  waitingInBatchLane: number;
  /** How many of them wait for their job, in either lane. */
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
  /** When its slot is expected to be granted. */
  expectedAt?: string;
}

/** A send that the budget granted, or that it heard of. */
export interface BudgetSend {
  workflowId: string;
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

/** Changes limit, window or reserve of a running budget. If more slots are used than the new limit has, they drain. */
export const setLimitUpdate = defineUpdate<BudgetStatus, [SetLimitInput]>('setLimit');
/** Lets nothing through until resumed. Sends under way continue. */
export const pauseUpdate = defineUpdate<BudgetStatus, [PauseInput]>('pause');
/** Ends the operator's pause. If the service refuses messages, the next send probes at once. */
export const resumeUpdate = defineUpdate<BudgetStatus>('resume');

const count = z.int().min(0).max(10_000);

/** Input of the `projectBudget` workflow. Internal: workers and `follow-up budget restore` start it. */
export const projectBudgetInputSchema = z.object({
  projectId: idSchema,
  settings: z.object({
    limit: count,
    windowMs: z.number().min(1).max(31_536_000_000),
    reserve: count,
    marginMs: z.number().min(0).max(3_600_000),
  }),
  /** First books as many sends as the limit leaves, for an operator who does not trust the list of follow-ups. */
  assumeFull: z.literal(true).exactOptional(),
});
export type ProjectBudgetInput = z.infer<typeof projectBudgetInputSchema>;
