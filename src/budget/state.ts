import type { Lane, SendOutcome } from '../contract/index.js';
import type { BudgetCeiling, BudgetSettings, JobFingerprint } from '../contract/protocol.js';

/** A follow-up that waits for a slot, for its job, or (`hold`) for somebody else's turn to end. */
export interface Waiter {
  workflowId: string;
  jobId: string;
  lane: Lane;
  sendNumber: number;
  /** Order of the workflow id's first ask; kept if a send is repeated. */
  arrival: number;
  hold: boolean;
  /** Scheduling time of the newest attempt that asked. Older attempts are overtaken. */
  newestAskAtMs: number;
  /** Budget time of the last ask. */
  heardAtMs: number;
  /** When the waiter asks again by itself. */
  dueAtMs: number;
  /**
   * Budget time of an invitation that it has not answered yet. It is in the future if the waiter stays in its activity
   * until a send starts.
   */
  invitedAtMs?: number;
  /** Not woken again before then. */
  quietUntilMs?: number;
}

/** A slot and turn that were granted. Kept until its slot has ended and 100 newer grants exist. */
export interface Grant {
  workflowId: string;
  jobId: string;
  sendNumber: number;
  /** Only its holder may settle this grant. Kept until then. */
  token?: string;
  messageTag: string;
  /** From the ask that was granted. Decides whether a later ask may take the grant back. */
  firstRunStartedAtMs: number;
  /** Missing if no ask may take the grant back. */
  askNumber?: number;
  grantedAtMs: number;
  leaseMs: number;
  drainMs: number;
  /** Its follow-up was told to report the end at once. Removed when the send is settled. */
  isAwaited?: true;
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

export interface OperatorPause {
  /** When it was ordered; states of older versions lack it. */
  sinceMs?: number;
  /** When it ends by itself; missing if it lasts until it is resumed. */
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
  /** Of the highest send number that was granted; empty if there is none. */
  messageTag: string;
  /** The last earlier send number that was repeated although it may have been delivered. */
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
  /** The one send that tests whether the pause may end. */
  probe?: { workflowId: string; sendNumber: number };
}

/**
 * How a budget sends after the service refused messages that the budget considered within the limit. Either somebody
 * else uses the limit too, or the service wants messages evenly spread.
 */
export interface Pace {
  /** When the latest such refusal started a pause. */
  refusedAtMs: number;
  /** Most sends that may be unsettled at once. Grows by one with each message that the service accepts. */
  atOnce: number;
  /** After the second refusal in a window: the time between two sends, and the earliest time of the next one. */
  gapMs?: number;
  nextAtMs?: number;
}

export interface BudgetState {
  projectId: string;
  settings: BudgetSettings;
  /** From the worker that asked last; applies in addition to the settings. */
  ceiling?: BudgetCeiling;
  /** Budget time. It never goes back, whatever the server's clock does. */
  lastTimeMs: number;
  grantCount: number;
  /** Sends that the service answered with 429. */
  limitedCount: number;
  arrivalCount: number;
  /** Interactive grants in a row that overtook a batch waiter. */
  overtakenCount: number;
  waiters: Waiter[];
  /** Mean time from an invitation to the ask that answers it. */
  answersInMs?: number;
  /** In the order of their grants: all that may still be settled, and the last 100. */
  grants: Grant[];
  /** Older grants whose slots have not ended: the time from which each is held for window and margin. */
  spent: number[];
  /** By job, in the order of their grants. */
  turns: Map<string, Turn>;
  pause?: ServicePause;
  operatorPause?: OperatorPause;
  pace?: Pace;
  /** Since when reads are refused for their key. Forgotten at `untilMs` unless it is reported again. */
  keyRefused?: { sinceMs: number; untilMs: number };
  /** End of the last service pause. Answers to sends that were granted before it say nothing about now. */
  resumedAtMs?: number;
  /** By hash of the workflow id, least recently touched first. */
  memory: Map<string, Remembered>;
  /**
   * Since when this budget, including budgets whose state it took over, has a complete record. Distinguishes it from a
   * budget that was deleted.
   */
  ledgerSinceMs: number;
  /** Grants to follow-ups that began before this time may have been forgotten. */
  memorySinceMs?: number;
  /** Grants to follow-ups that began before this time are lost, as an operator said. */
  lostBeforeMs?: number;
  /** When the sends of a deleted budget are assumed to have been made: its slots count as used. */
  assumedFullFromMs?: number;
  /** The last turn's end by hash of the job's id, least recently touched first. */
  lastJobs: Map<string, JobFingerprint>;
  /** Ids of the operators' latest orders, oldest first. Each order is carried out once. */
  orders: string[];
}

/**
 * A budget that has never granted anything.
 *
 * @param sinceMs when it was started, in epoch milliseconds. It cannot know what was granted before
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
    // The hosts' clocks differ.
    ...(sinceMs !== undefined && { memorySinceMs: sinceMs + settings.marginMs }),
    memory: new Map(),
    lastJobs: new Map(),
    orders: [],
  };
}
