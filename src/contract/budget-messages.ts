import { z } from 'zod';
import type { Lane } from './choices.js';
import { defineQuery, defineSignal, defineUpdate } from './definitions.js';
import { durationSchema, instantMsSchema } from './durations.js';
import { idSchema } from './ids.js';

/** How one send ended, as the budget records it. */
export const sendOutcomes = ['sent', 'notSent', 'rejected', 'unauthorized', 'limited', 'unknown'] as const;
export type SendOutcome = (typeof sendOutcomes)[number];

/** Why a budget lets nothing through, but for one probe at a time. `operator`: not even a probe. */
export type PauseReason = 'operator' | 'limited' | 'credentials';

/**
 * Why an ask was not granted. Two are not the budget's own word: `gate-stopped`, its workflow has ended, and
 * `budget-silent`, it runs and does not answer (it is paused in Temporal, fails at its tasks, or has no worker).
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

/** What a turn's end looked like, small enough to be kept: `prLinkHash` is `hash64` of the link. */
export interface JobFingerprint {
  status: string | null;
  prLinkHash: string | null;
  archivedAt: string | null;
}

/** What a follow-up knows of earlier asks for its send; see {@link AcquireRequest}. */
export const grantedBefore = ['surely', 'perhaps'] as const;
export type GrantedBefore = (typeof grantedBefore)[number];

/** A pause that keeps a follow-up from being sent, as its budget told it. */
export interface ToldPause {
  /** `service`: it answered 429. */
  by: 'operator' | 'service';
  /** In epoch milliseconds; missing where it lasts until it is resumed. */
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
  /** Leave: `closed` is the answer where nothing was granted, and nothing will be. */
  withdraw?: true;
  /**
   * An earlier attempt of this send was granted and may have sent (`surely`), or the run replaces another that may have
   * (`perhaps`). A budget that does not know of it has forgotten it, or has taken the place of one that was deleted.
   */
  grantedBefore?: GrantedBefore;
  /**
   * How many asks the follow-up has made, this one included: the attempts of one activity share a number. Missing where
   * the run replaces another, which may ask, too.
   */
  askNumber?: number;
  /**
   * No ask of this follow-up with a lower `askNumber` has sent, or can: the budget may take back what it granted to
   * one.
   */
  provenNotSent?: true;
  /** What the follow-up was told as {@link AcquireAnswer}'s `ledgerSinceMs`. */
  ledgerSinceMs?: number;
  /** What is asked for, as `messageTag` in `src/follow-up` makes it. Kept with the grant. */
  messageTag: string;
  /** Server time at which this attempt of the activity was scheduled, in epoch milliseconds. */
  attemptScheduledAtMs: number;
  /** Start of the follow-up's first run, in epoch milliseconds. */
  firstRunStartedAtMs: number;
  /** The sender has stopped by then, in milliseconds from the grant. */
  leaseMs: number;
  /** How long after the lease bytes may still arrive, because of kernel retransmits or gateways. */
  drainMs: number;
  /** Holds for this ask beside the budget's own limit and window. @default none */
  ceiling?: BudgetCeiling;
}

/** The budget's answer to an {@link AcquireRequest}. It answers at once and never holds an ask open. */
export type AcquireAnswer =
  /**
   * Slot and job turn are taken: send after `sendAfterMs`, or now where it is not given. A slot that is about to end is
   * granted ahead, so that it is used from its first instant; `grantedAtMs` is that instant.
   */
  | {
      kind: 'granted';
      grantedAtMs: number;
      sendAfterMs?: number;
      lastJobSeen?: JobFingerprint;
      ledgerSinceMs: number;
    }
  /** This request was granted before, and how its send ended is known. */
  | {
      kind: 'done';
      outcome: SendOutcome;
      grantedAtMs?: number;
      settledAtMs?: number;
      message?: string;
      /** HTTP status of a rejection. */
      statusCode?: number;
      lastJobSeen?: JobFingerprint;
      messageTag?: string;
    }
  /** This request was granted before, and how its send ended is not known (yet). */
  | {
      kind: 'alreadyGranted';
      leaseLeftMs: number;
      drainLeftMs: number;
      grantedAtMs?: number;
      lastJobSeen?: JobFingerprint;
      messageTag?: string;
    }
  /**
   * Ask again after `waitMs`, or when woken. `etaMs`: expected wait until the grant, `null` where it can't be told.
   * `ledgerSinceMs`: since when this budget, or one whose state it took over, has known everything. `pause`: with the
   * reason `paused`.
   */
  | {
      kind: 'wait';
      reason: WaitReason;
      waitMs: number;
      position: number;
      etaMs: number | null;
      ledgerSinceMs?: number;
      pause?: ToldPause;
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
  /** Repeats the outcome of the last send, which makes a lost settle good. */
  outcome?: SendOutcome;
  /** The job as this turn left it. */
  lastJobSeen?: JobFingerprint;
}

/** What a read of the job says about the project's key. */
export interface KeyReadMessage {
  /** The service answered 401 or 403, or there is no key; `false` where the key is taken again. */
  isRefused: boolean;
}

/** What a budget is told. `finish` and `withdraw` are both the end of a follow-up. */
export type BudgetWord =
  | ({ kind: 'settle' } & SettleMessage)
  | ({ kind: 'finish' | 'withdraw' } & LeaveMessage)
  | ({ kind: 'keyRead' } & KeyReadMessage);

/** Several asks at once; one answer for each, in their order. */
export const acquireUpdate = defineUpdate<AcquireAnswer[], [AcquireRequest[]]>('acquire');
/** Several words at once, heard in their order. One that makes no sense is passed over. */
export const reportSignal = defineSignal<[BudgetWord[]]>('report');
/**
 * What an onlooker is told. The argument is the asker's time in epoch milliseconds: a workflow that is idle does not know
 * how late it is, and without it tells how things were after its last event. `about` is the workflow id of a follow-up
 * that `waiting` names wherever it stands in the line.
 */
export const budgetStatusQuery = defineQuery<BudgetStatus, [nowMs?: number, about?: string]>('budgetStatus');

/** What the future sends of a project are told from. Instants are epoch milliseconds. */
export interface BudgetSlots {
  /** Messages per window, that of the workers' ceiling included. */
  limit: number;
  /** Slots kept free of the batch lane. */
  reserve: number;
  /** When the slots that are occupied are expected to end, in order. */
  endsMs: number[];
  /** How long a slot is expected to be taken by one send. */
  cycleMs: number;
  /** While nothing is sent: until when; `null` where that cannot be told. */
  pausedUntilMs?: number | null;
  /** After refusals by the service: the next send, and the time between two. */
  pace?: { nextAtMs: number; gapMs: number };
}

/** Like {@link budgetStatusQuery}, for callers that want to know when many more messages will have been sent. */
export const budgetSlotsQuery = defineQuery<BudgetSlots, [nowMs?: number]>('budgetSlots');

/** New settings of a budget; what is missing stays as it is. */
export const setLimitInputSchema = z
  .strictObject({
    /** Messages per window; 0 lets nothing through. */
    limit: z
      .int('must be a whole number')
      .min(0, 'must be from 0 to 10000')
      .max(10_000, 'must be from 0 to 10000')
      .optional(),
    /** Length of the rolling window, as a duration. */
    window: durationSchema('1s', '365d').optional(),
    /** Slots that the batch lane leaves free; below the limit. */
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

/** Change limit, window or reserve live. Over the new limit, slots drain; nothing is broken off. */
export const setLimitUpdate = defineUpdate<BudgetStatus, [SetLimitInput]>('setLimit');
/** Let nothing through until resumed. What is being sent goes on. */
export const pauseUpdate = defineUpdate<BudgetStatus, [PauseInput]>('pause');
/** End the operator's pause, and let the next follow-up try whether the service takes messages again. */
export const resumeUpdate = defineUpdate<BudgetStatus>('resume');
/** The whole state of a budget, closed or not, for its restoration. */
export const carriedStateQuery = defineQuery<unknown>('carriedState');

/** Answer of the `budgetStatus` query. Instants are ISO 8601 in UTC. */
export interface BudgetStatus {
  projectId: string;
  limit: number;
  windowMs: number;
  /** Slots kept free of the batch lane. */
  reserve: number;
  /** Slots occupied now. */
  used: number;
  /** Sends granted and not settled yet. */
  unsettled: number;
  /** When the next occupied slot ends. */
  nextFreeSlotAt?: string;
  /**
   * `since` and `until` span all reasons; a pause without `until` ends when it is resumed. `note` is the operator's.
   */
  paused?: { reasons: PauseReason[]; since?: string; until?: string; note?: string };
  /** At most the first 100, in the order of their turns, and the one that was asked about. */
  waiting: BudgetWaiter[];
  /** After refusals by the service: milliseconds between two sends. */
  pacedEveryMs?: number;
  /**
   * The budget before this one was deleted with what it knew, while follow-ups of it still run: until then every slot
   * counts as used.
   */
  assumedFullUntil?: string;
  waitingTotal: number;
  /** How many of them are in the batch lane; the others are in the interactive one. */
  waitingInBatchLane: number;
  /** How many of them wait for their job, in whatever lane. */
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
  /** Expected instant of the grant. */
  expectedAt?: string;
  /** When the budget called it because its slot is there; it has not asked since. */
  calledAt?: string;
}

/** A send the budget granted. */
export interface BudgetSend {
  workflowId: string;
  jobId: string;
  sendNumber: number;
  grantedAt: string;
  settledAt?: string;
  outcome?: SendOutcome;
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
    /** Slots that the batch lane leaves free; below `limit`. @default 0 */
    reserve: z.int().min(0),
    /** A slot is held that much longer than the window: clocks of the service and of Temporal differ. @default 2_000 */
    marginMs: z.int().min(0).max(3_600_000),
    /** Largest `limit` that `setLimit` takes until a worker's ask brings its own ceiling. @default no bound */
    maxLimit: z.int().min(0).max(10_000).exactOptional(),
  })
  .refine(({ limit, reserve }) => reserve === 0 || reserve < limit, {
    path: ['reserve'],
    message: 'must be below limit',
  });
export type BudgetSettings = z.infer<typeof budgetSettingsSchema>;

/** Failure type of a budget's run that somebody reset. */
export const BUDGET_RESET = 'BudgetReset';

/** First argument of the `projectBudget` workflow. */
export const projectBudgetInputSchema = z.strictObject({
  projectId: idSchema,
  settings: budgetSettingsSchema,
  /** State of a budget that was terminated, as `carriedState` gave it. */
  restored: z.unknown().optional(),
  /** The state of the budget before is lost: take every slot for spent now, and every older follow-up for sent. */
  assumeFull: z.literal(true).optional(),
  /**
   * With `assumeFull`: sends of the budget before may reach the service until then, in epoch milliseconds. Every slot is
   * held for window and margin from then on. @default now
   */
  inFlightUntilMs: instantMsSchema.optional(),
});
export type ProjectBudgetInput = z.infer<typeof projectBudgetInputSchema>;
