import { z } from 'zod';
import type { PatchPort } from '../common/index.js';
import {
  type AgentJob,
  agentJobSchema,
  type Delivered,
  type FollowUpProgress,
  type FollowUpSettings,
  type Refusal,
  type SendOutcome,
  sendOutcomes,
} from '../contract/index.js';
import {
  type Ask,
  askReplySchema,
  type EndReport,
  isAtWork,
  type OutcomeReport,
  slotReplySchema,
} from '../protocol/index.js';
import type { WatchRequest, WatchResult } from './judge.js';

/** What a follow-up needs from its environment: a Temporal workflow or the simulation. No call rejects. */
export interface FollowUpPort extends PatchPort {
  /** Start of the workflow's first run, or somewhat earlier, in epoch milliseconds. */
  readonly startedAtMs: number;
  readonly runId: string;
  /** Whether the workflow has had another run, after a reset or a retry, which may have sent the message. */
  readonly mayHaveSent: boolean;
  nowMs(): number;
  /** A random number from 0 to 1. */
  random(): number;
  /** Resolves with `true` when `isOver()`, or with `false` after `ms`. */
  condition(isOver: () => boolean, ms?: number): Promise<boolean>;
  /**
   * Resolves in a later workflow task, when the current task is in the history. Until then the task can be undone,
   * if its worker dies or a signal arrives first, so nothing outside may learn of it.
   */
  nextTask(): Promise<void>;
  /**
   * Reads the job and asks the budget. Repeats until there is a reply, and calls `onTrouble` after the first failure.
   * `result` is `undefined` if the ask was stopped or `untilMs` has passed.
   */
  askForSlot(request: SlotRequest, untilMs: number, onTrouble: (trouble: Trouble) => void): Stoppable<SlotResult>;
  /** Asks the budget whether another run has delivered the message. `undefined`: it does not reply. */
  wasDelivered(messageTag: string): Promise<Delivered | undefined>;
  /** Whether the history of the workflow is so long or large that the server will soon end it. */
  isHistoryFull(): boolean;
  readJob(request: ReadRequest): Promise<ReadResult>;
  /** Makes only one attempt, whatever happens. */
  sendMessage(request: SendRequest): Promise<SendResult>;
  /** Resolves when the budget has received the report, or does not run. */
  reportToBudget(report: NewReport): Promise<void>;
  /** Starts a watch. `result` is `undefined` if it was stopped. */
  watchJob(request: WatchRequest): Stoppable<WatchResult>;
  /** @param lastSendAtMs when the last send of the message was granted */
  show(progress: FollowUpProgress, lastSendAtMs: number | undefined): void;
}

export interface Stoppable<T> {
  result: Promise<T | undefined>;
  stop(): void;
}

export interface Trouble {
  /** A `WaitReason` or a `BlockReason`. */
  reason: string;
  message: string;
}

/** A report without the fields that the port adds: the workflow id, and the run of an end. */
export type NewReport = Omit<OutcomeReport, 'workflowId'> | Omit<EndReport, 'workflowId' | 'runId'>;

export interface SlotRequest {
  projectId: string;
  jobId: string;
  whenActive: FollowUpSettings['whenActive'];
  /** Whether an earlier send may have delivered the message. If so, the budget is asked also if the job is archived. */
  isInDoubt: boolean;
  /** The run that makes the request. A reset run repeats its predecessor's ask, which may have led to a send. */
  runId: string;
  ask: Omit<Ask, 'workflowId' | 'runId' | 'leaseMs' | 'drainMs' | 'maxLimit' | 'jobIs'>;
}

const slotResultSchema = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('asked'),
    /** The job just before the ask. Missing if the service refused the read, or if the job takes no message now. */
    jobBefore: agentJobSchema.exactOptional(),
    /** The job if it takes no message now. */
    unreadyJob: agentJobSchema.exactOptional(),
    /** Why the service refused the read. */
    refusalMessage: z.string().exactOptional(),
    reply: askReplySchema,
    /** Whether links to pull requests are kept out of search attributes. */
    linksArePrivate: z.literal(true).exactOptional(),
  }),
  /** Has a reply only if the follow-up is in doubt. */
  z.object({ kind: z.literal('archived'), job: agentJobSchema, reply: slotReplySchema.exactOptional() }),
  z.object({ kind: z.literal('notFound'), message: z.string() }),
]);
export type SlotResult = z.infer<typeof slotResultSchema>;

export interface SendRequest {
  projectId: string;
  jobId: string;
  prompt: string;
  whenActive: FollowUpSettings['whenActive'];
  /** The send starts before `grantedAtMs + leaseMs` less its timeout, in the run `runId`, or never. */
  grant: { runId: string; sendNumber: number; grantedAtMs: number; leaseMs: number };
  /** The job as read just before the send. Missing if the follow-up waited for its grant: the job is then read again. */
  jobBefore?: AgentJob;
}

/** Why nothing is sent to a job that looks like this. */
export function reasonAgainst(job: AgentJob, whenActive: FollowUpSettings['whenActive']): string | undefined {
  if (job.status === 'archived') return 'the job was archived';
  return whenActive === 'wait' && isAtWork(job) ? 'the job works on another message' : undefined;
}

export interface ReadRequest {
  projectId: string;
  jobId: string;
  /** The run that was granted the send. */
  runId: string;
}

/**
 * The job before a send. `foreign`: the grant belongs to another run. `refused` is set if the service refuses the read as
 * it refuses messages.
 */
export type ReadResult =
  | { kind: 'foreign' }
  | { kind: 'job'; job: AgentJob }
  | { kind: 'notFound'; message: string }
  | { kind: 'failed'; message: string; refused?: Pick<SendResult, 'refusal' | 'statusCode' | 'retryAfterMs'> };

/** `runId/sendNumber`. A result without this name was entered by an operator. */
export function grantName({ runId, sendNumber }: Pick<SendRequest['grant'], 'runId' | 'sendNumber'>): string {
  return `${runId}/${sendNumber}`;
}

export interface SendResult {
  grant: string;
  /** `foreign`: the grant belongs to another run, and this one sent nothing. */
  outcome: SendOutcome | 'foreign';
  /** The job just before the send. */
  jobBefore?: AgentJob;
  /** The job, as the service's response to the message shows it. */
  job?: AgentJob;
  message?: string;
  statusCode?: number;
  /** As in {@link SlotResult}: the grant may have come before the reply to an ask. */
  linksArePrivate?: true;
  refusal?: Refusal;
  retryAfterMs?: number;
}

/**
 * Reads the result of a send. Without the name of its grant it was entered by an operator, so the outcome is unknown.
 */
export function readSendResult(result: unknown, { grant }: SendRequest): SendResult {
  const sent = result as SendResult | null | undefined;
  const isKnown = sent?.outcome === 'foreign' || sendOutcomes.some((outcome) => outcome === sent?.outcome);
  if (sent?.grant === grantName(grant) && isKnown) return sent;
  return { grant: grantName(grant), outcome: 'unknown', message: 'the send was completed manually' };
}

/** Reads the result of an ask; `undefined` if an operator entered an invalid one. */
export function readSlotResult(result: unknown): SlotResult | undefined {
  return slotResultSchema.safeParse(result).success ? (result as SlotResult) : undefined;
}
