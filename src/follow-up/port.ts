import { z } from 'zod';
import { type SendOutcome, sendOutcomes } from '../contract/budget.js';
import type { FollowUpSettings } from '../contract/follow-up-input.js';
import { type AgentJob, agentJobSchema, type FollowUpProgress } from '../contract/follow-up.js';
import { anyAnswerSchema, type Ask, type End, type Settlement, slotSchema } from '../contract/protocol.js';
import type { WatchOrder, WatchResult } from './watch.js';

/** What a follow-up needs from its surroundings: a workflow on Temporal, or the simulation. No call rejects. */
export interface FollowUpPort {
  /** When the first run of this workflow started, or somewhat earlier, in epoch milliseconds. */
  readonly startedAtMs: number;
  readonly runId: string;
  /** Whether this run replaces another one, which may have sent. */
  readonly mayHaveSent: boolean;
  nowMs(): number;
  /** From 0 to 1. */
  random(): number;
  /** Resolves with `true` when `isOver()`, or with `false` after `ms`. */
  condition(isOver: () => boolean, ms?: number): Promise<boolean>;
  /**
   * Resolves in a later workflow task, so that what led here is in the history. A task that is undone (its worker dies,
   * or a signal comes before its end) may take another way, and nobody must have been told of this one.
   */
  nextTask(): Promise<void>;
  /**
   * Reads the job and, if it takes messages, asks the budget. Repeated until there is an answer; `onTrouble` is called
   * when the first try failed. `result` is `undefined` if it was stopped, or if `untilMs` has passed.
   */
  askForSlot(order: SlotOrder, untilMs: number, onTrouble: (trouble: Trouble) => void): Stoppable<SlotAnswer>;
  /** One attempt, whatever happens. */
  sendMessage(order: SendOrder): Promise<SendResult>;
  /** Resolves when the budget has it. */
  tellBudget(event: NewEvent): Promise<void>;
  /** Starts a watch. `result` is `undefined` if it was stopped. */
  watchJob(order: WatchOrder): Stoppable<WatchResult>;
  /** Shows people where the follow-up stands. */
  show(progress: FollowUpProgress): void;
}

/** Work that can be stopped before it has a result. */
export interface Stoppable<T> {
  result: Promise<T | undefined>;
  stop(): void;
}

/** What keeps an ask or a watch from working. */
export interface Trouble {
  /** A `WaitReason` or a `BlockReason`. */
  reason: string;
  message: string;
}

/** The port adds the workflow's id, and its run to an end. */
export type NewEvent = Omit<Settlement, 'workflowId'> | Omit<End, 'workflowId' | 'runId'>;

export interface SlotOrder {
  projectId: string;
  jobId: string;
  whenActive: FollowUpSettings['whenActive'];
  /** Whether an earlier send may have delivered the message. Then the budget is asked whatever the job shows. */
  isInDoubt: boolean;
  /** The run that orders it. One that was reset takes over an ask of its predecessor, which may have sent since. */
  runId: string;
  /** The activity adds what the follow-up cannot know. */
  ask: Omit<Ask, 'workflowId' | 'runId' | 'leaseMs' | 'drainMs' | 'maxLimit'>;
}

const slotAnswerSchema = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('asked'),
    /** The job right before the ask. Missing if the service refused to let it be read. */
    baseline: agentJobSchema.exactOptional(),
    refusal: z.string().exactOptional(),
    answer: anyAnswerSchema,
    /** Whether links to pull requests are kept out of search attributes. */
    linksArePrivate: z.literal(true).exactOptional(),
  }),
  /** With an answer if the follow-up is in doubt. */
  z.object({ kind: z.enum(['atWork', 'archived']), job: agentJobSchema, answer: slotSchema.exactOptional() }),
  /** `notServed`: no worker of this task queue reads or sends for the project. */
  z.object({ kind: z.enum(['notFound', 'notServed']), message: z.string() }),
]);
export type SlotAnswer = z.infer<typeof slotAnswerSchema>;

export interface SendOrder {
  projectId: string;
  jobId: string;
  prompt: string;
  whenActive: FollowUpSettings['whenActive'];
  /** The send starts before `grantedAtMs + leaseMs` less its timeout, in the run `runId`, or never. */
  grant: { runId: string; sendNumber: number; grantedAtMs: number; leaseMs: number };
  /** The job right before the ask. Missing if the follow-up waited for its grant: then the job is read again. */
  baseline?: AgentJob;
}

/** `runId/sendNumber`. A result without the name of its grant was typed by hand. */
export function grantName({ runId, sendNumber }: Pick<SendOrder['grant'], 'runId' | 'sendNumber'>): string {
  return `${runId}/${sendNumber}`;
}

export interface SendResult {
  /** See {@link grantName}. */
  grant: string;
  /** `foreign`: the grant belongs to another run, and nothing was sent. */
  outcome: SendOutcome | 'foreign';
  /** The job right before the send. */
  baseline?: AgentJob;
  /** The job, as the service's answer to the message shows it. */
  job?: AgentJob;
  message?: string;
  statusCode?: number;
  refusal?: 'limited' | 'credentials' | 'payment';
  retryAfterMs?: number;
}

/** What a send reported. What does not name its grant was typed by hand, and says nothing about the message. */
export function readSendResult(result: unknown, { grant }: SendOrder): SendResult {
  const sent = result as SendResult | null | undefined;
  const isKnown = sent?.outcome === 'foreign' || sendOutcomes.some((outcome) => outcome === sent?.outcome);
  if (sent?.grant === grantName(grant) && isKnown) return sent;
  return { grant: grantName(grant), outcome: 'unknown', message: 'the send was completed by hand' };
}

/** The answer of an ask; `undefined` if it was typed by hand. */
export function readSlotAnswer(result: unknown): SlotAnswer | undefined {
  return slotAnswerSchema.safeParse(result).success ? (result as SlotAnswer) : undefined;
}
