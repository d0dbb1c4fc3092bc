import type { BudgetCeiling, BudgetSettings, JobFingerprint, Lane, SendOutcome } from '../contract/index.js';

/** A follow-up that waits for a slot, for its job, or (`hold`) for somebody else's turn to end. */
export interface Waiter {
  workflowId: string;
  jobId: string;
  lane: Lane;
  sendNumber: number;
  /** Order of the workflow id's first ask; kept when a send has to be repeated. */
  arrival: number;
  /** Keeps its place, is never granted. */
  hold: boolean;
  /** Scheduling time of the newest attempt that asked; an older one is overtaken. */
  newestAskAtMs: number;
  /** Budget time of the last ask. */
  heardAtMs: number;
  /** When the waiter asks again by itself. */
  dueAtMs: number;
  /** Budget time of an invitation that it has not answered yet. */
  invitedAtMs?: number;
  /** Not woken again before then. */
  quietUntilMs?: number;
}

/** A slot and turn that was given away. It stays until its slot has ended and it is none of the last 100. */
export interface Grant {
  workflowId: string;
  jobId: string;
  sendNumber: number;
  /** Only its holder may settle this grant; kept until then. */
  token?: string;
  messageTag: string;
  /** Of the ask that was granted: tells whether a later one may take the grant back. */
  firstRunStartedAtMs: number;
  askNumber?: number;
  grantedAtMs: number;
  leaseMs: number;
  drainMs: number;
  settledAtMs?: number;
  outcome?: SendOutcome;
  /** The service's words for a rejected message, and the HTTP status that came with them. */
  message?: string;
  statusCode?: number;
}

/** Who has the job's turn. */
export interface Turn {
  workflowId: string;
  /** When the owner was last asked whether it still runs. */
  checkedAtMs?: number;
}

/** An operator's pause. */
export interface OperatorPause {
  /** When it was ordered; states of older versions lack it. */
  sinceMs?: number;
  /** When it ends by itself; missing: when it is resumed. */
  untilMs?: number;
  note?: string;
}

/** What is remembered of a workflow id after its waiter and grant are gone. */
export interface Remembered {
  /** Highest send number that was granted; 0 for none. */
  sendNumber: number;
  grantedAtMs: number;
  outcome?: SendOutcome;
  /** Finished or withdrawn: never granted again. */
  closed: boolean;
  arrival: number;
  touchedAtMs: number;
  /** Of the highest send number that was granted; empty for none. */
  messageTag: string;
  /** The last send number before it that was repeated though it may have been delivered. */
  doubtfulNumber?: number;
}

/** A pause that the service caused. */
export interface ServicePause {
  reason: 'limited' | 'credentials';
  /** When it began; states of older versions lack it. */
  sinceMs?: number;
  untilMs: number;
  /** Steps of the backoff taken so far. */
  step: number;
  /** The one send that tries whether the pause may end. */
  probe?: { workflowId: string; sendNumber: number };
}

/**
 * How a budget sends after the service has refused messages that the budget took to be within the limit: somebody else
 * spends it, too, or the service wants messages evenly spread.
 */
export interface Pace {
  /** When the latest such refusal began a pause. */
  refusedAtMs: number;
  /** Sends that may be unsettled at once: one more for each that the service takes. */
  atOnce: number;
  /** From the second refusal of a window on: the time between two sends, and the earliest instant of the next one. */
  gapMs?: number;
  nextAtMs?: number;
}

/** The whole state of a budget. */
export interface BudgetState {
  projectId: string;
  settings: BudgetSettings;
  /** Of the worker that asked last: holds beside the settings. */
  ceiling?: BudgetCeiling;
  /** Budget time: never goes back, whatever the clock of the server does. */
  lastTimeMs: number;
  grantCount: number;
  /** Sends that the service answered with 429. */
  limitedCount: number;
  arrivalCount: number;
  /** Interactive grants in a row that overtook a batch waiter. */
  overtakenCount: number;
  /** In the order of their arrival. */
  waiters: Waiter[];
  /** In the order of their grants: all that may still be settled, and the last 100. */
  grants: Grant[];
  /** Older grants whose slots have not ended: the instant from which each is held for window and margin. */
  spent: number[];
  /** By job, in the order of their grants. */
  turns: Map<string, Turn>;
  pause?: ServicePause;
  operatorPause?: OperatorPause;
  pace?: Pace;
  /** Reads are refused for their key since then; forgotten at `untilMs` unless somebody repeats it. */
  keyRefused?: { sinceMs: number; untilMs: number };
  /** End of the last service pause: answers to sends granted before it say nothing about now. */
  resumedAtMs?: number;
  /** By hash of the workflow id, least recently touched first. */
  memory: Map<string, Remembered>;
  /**
   * Since when this budget, and those before whose state it took over, have known everything. Tells it from one that was
   * deleted.
   */
  ledgerSinceMs: number;
  /** What follow-ups that began before it were granted may have been forgotten. */
  memorySinceMs?: number;
  /** An operator said so: what follow-ups that began before it were granted is lost. */
  lostBeforeMs?: number;
  /** The slots of a budget that was deleted count as used; this is when they were taken to be sent. */
  assumedFullFromMs?: number;
  /** The last turn's end by hash of the job's id, least recently touched first. */
  lastJobs: Map<string, JobFingerprint>;
  /** Ids of the latest orders of operators, oldest first: each is carried out once. */
  orders: string[];
}

/**
 * A budget that has never granted anything.
 *
 * @param sinceMs when it was started, in epoch milliseconds. What was granted before, it cannot know
 */
export function newState(projectId: string, settings: BudgetSettings, sinceMs?: number): BudgetState {
  return {
    projectId,
    settings,
    lastTimeMs: 0,
    grantCount: 0,
    limitedCount: 0,
    arrivalCount: 0,
    overtakenCount: 0,
    waiters: [],
    grants: [],
    spent: [],
    turns: new Map(),
    ledgerSinceMs: sinceMs ?? 0,
    // The clocks of the hosts differ.
    ...(sinceMs !== undefined && { memorySinceMs: sinceMs + settings.marginMs }),
    memory: new Map(),
    lastJobs: new Map(),
    orders: [],
  };
}
