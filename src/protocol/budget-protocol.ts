// Messages between follow-ups, their activities and budgets. Not part of the published contract.
import { z } from 'zod';
import { defineQuery, defineSignal, defineUpdate, hash64, instantMsSchema } from '../common/index.js';
import {
  type AgentJob,
  type BlockReason,
  blockReasons,
  type Delivered,
  isTerminalStatus,
  lanes,
  refusals,
  sendOutcomes,
  type ShownPause,
  type WaitReason,
  waitReasons,
} from '../contract/index.js';

/** The reason that a failed ask or read names; `undefined` if it comes from elsewhere, such as an interceptor. */
export function toReason(reason: string): WaitReason | BlockReason | undefined {
  return [...waitReasons, ...blockReasons].find((known) => known === reason);
}

/** Longest text in a fingerprint, of which budgets keep one per job. Longer text is hashed. */
const MAX_KEPT_LENGTH = 24;

export function fingerprint({ status, prLink, archivedAt }: AgentJob): JobFingerprint {
  const kept = (text?: string | null) => (text && text.length > MAX_KEPT_LENGTH ? hash64(text) : (text ?? null));
  return { status: kept(status), prLink: kept(prLink), archivedAt: kept(archivedAt) };
}

/** Whether a job works on a message. A missing status is no evidence. */
export function isAtWork({ status }: AgentJob): boolean {
  return status !== undefined && !isTerminalStatus(status);
}

const idText = z.string().min(1).max(255);
const shortText = z.string().max(100);
/** Longer than any setting of a worker. */
const durationMs = z.number().min(0).max(7_200_000);
/** HTTP status of the service's response. */
const statusCode = z.int().min(100).max(999).exactOptional();
/** Set if the service refuses a read of the job. */
const refusedRead = { statusCode, refusal: z.enum(refusals).exactOptional(), retryAfterMs: durationMs.exactOptional() };

/** Identifies a send of a run. A grant belongs to one run, and a reset makes another. */
const send = {
  runId: z.string().min(1).max(64),
  /**
   * 1 for the first send; increases after each send that was not delivered or that an operator or `onUnknownDelivery`
   * has repeated.
   */
  sendNumber: z.int().min(1).max(1_000_000),
};

/** An ask for a slot of the project's budget and for the job's turn. Safe to repeat. */
export const askSchema = z.object({
  workflowId: idText,
  /** Of the run that asks. */
  ...send,
  lane: z.enum(lanes),
  /** `hash64` of the prompt. */
  messageTag: z.string().max(16),
  /** Whether the workflow has had another run, after a reset or a retry, which may have sent the message. */
  mayHaveSent: z.boolean(),
  /** Start of the workflow's first run, or somewhat earlier, in epoch milliseconds. */
  startedAtMs: instantMsSchema,
  /** Time from its grant within which the asking worker's send ends or never starts. */
  leaseMs: durationMs.min(1),
  /** How long after the lease bytes may still arrive. */
  drainMs: durationMs,
  /** Highest limit that the worker's configuration allows. */
  maxLimit: z.number().min(0),
  /** How the job was just before. Missing if it was not read, or if the message does not wait for its turn. */
  jobIs: z.enum(['at-rest', 'at-work']).exactOptional(),
  /** The refusal of the read just before. */
  ...refusedRead,
});
export type Ask = z.infer<typeof askSchema>;

/** How a job looked at the end of a turn. It distinguishes that end from the end of the next turn. */
const fingerprintSchema = z.object({
  status: shortText.nullable(),
  prLink: shortText.nullable(),
  archivedAt: shortText.nullable(),
});
export type JobFingerprint = z.infer<typeof fingerprintSchema>;

const pauseSchema: z.ZodType<ShownPause> = z.object({
  by: z.enum(['operator', 'service', 'message']),
  until: z.iso.datetime().exactOptional(),
  statusCode: z.int().exactOptional(),
  note: z.string().max(1_000).exactOptional(),
});

/** The follow-up may send. */
const grantedSchema = z.object({
  kind: z.literal('granted'),
  ...send,
  grantedAtMs: instantMsSchema,
  /** The send starts before `grantedAtMs + leaseMs` minus its timeout, or never. */
  leaseMs: durationMs.min(1),
  /** No byte of it arrives later. */
  overAtMs: instantMsSchema,
  /** The job at the end of its previous turn, if that was seen. */
  previousEnd: fingerprintSchema.exactOptional(),
});
export type Granted = z.infer<typeof grantedSchema>;

/** The follow-up has a place in line. Its grant follows as a signal. */
const waitingSchema = z.object({
  kind: z.literal('waiting'),
  ...send,
  reason: z.enum(waitReasons),
  /** 1 is next; 0 while its job is busy. */
  position: z.int().min(0),
  expectedAtMs: instantMsSchema.exactOptional(),
  pause: pauseSchema.exactOptional(),
  /** Set if the job works on a message that the budget does not know: the follow-up watches it, and asks when it rests. */
  isToWatch: z.literal(true).exactOptional(),
});
export type Waiting = z.infer<typeof waitingSchema>;

/** The line has no place, or none for this job. The follow-up asks again later. */
const fullSchema = z.object({
  kind: z.literal('full'),
  ...send,
  reason: z.enum(['queue-full', 'job-busy']),
});
export type Full = z.infer<typeof fullSchema>;

/** What the budget knows of a follow-up's earlier send. */
export const verdicts = [
  /** It may have arrived, and the job's turn is still this message's: the run may watch it. */
  'current',
  /** It may have arrived, but another message may have had the job's turn since, or have been sent with this key. */
  'superseded',
  /** It did not arrive, and the budget has forgotten no later one that might have. */
  'undelivered',
  /** The budget may have forgotten a send that arrived. */
  'forgotten',
] as const;
export type Verdict = (typeof verdicts)[number];

/** A send was granted to this workflow id before, or may have been. */
const earlierSendSchema = z.object({
  kind: z.literal('earlierSend'),
  /** The run that asks, and the number of the earlier send. */
  ...send,
  verdict: z.enum(verdicts),
  /** `null` if none was reported: the send may be in progress until `overAtMs`. */
  outcome: z.enum(sendOutcomes).nullable(),
  outcomeAtMs: instantMsSchema,
  grantedAtMs: instantMsSchema,
  overAtMs: instantMsSchema,
  /** Its time in Temporal's list, if the budget knows it only from there: there may have been other sends before it. */
  listedAtMs: instantMsSchema.exactOptional(),
});
export type EarlierSend = z.infer<typeof earlierSendSchema>;

/** Replies that follow an ask as a signal. Other signals are ignored. */
export const signalledReplySchema = z.discriminatedUnion('kind', [grantedSchema, waitingSchema]);

/** Replies about a slot rather than an earlier send. */
export const slotReplySchema = z.discriminatedUnion('kind', [grantedSchema, waitingSchema, fullSchema]);

/** Any reply to an ask. `runId` is the run that asked: a reset run replays its predecessor's replies. */
export const askReplySchema = z.discriminatedUnion('kind', [
  slotReplySchema,
  earlierSendSchema,
  z.object({ kind: z.literal('otherMessage') }),
  z.object({ kind: z.literal('ended') }),
]);
export type AskReply = z.infer<typeof askReplySchema>;

const outcomeReportSchema = z.object({
  kind: z.literal('outcome'),
  workflowId: idText,
  /** Of the run that was granted the send. */
  ...send,
  outcome: z.enum(sendOutcomes),
  /** When the follow-up learned it, by the server's clock. The slot is in use for a window from here. */
  atMs: instantMsSchema,
  /** `statusCode` and `retryAfterMs` are of the response to the message, or of a refused read just before it. */
  ...refusedRead,
});
export type OutcomeReport = z.infer<typeof outcomeReportSchema>;

/** The end of a follow-up. A grant without a reported outcome was never used. */
const endReportSchema = z.object({
  kind: z.literal('end'),
  workflowId: idText,
  runId: send.runId,
  /** Set if the end of its turn was not seen: no other follow-up gets the job before this time. */
  turnUntilMs: instantMsSchema.exactOptional(),
  /** The job at the end of the follow-up's turn, if that was seen. */
  jobAtEnd: fingerprintSchema.exactOptional(),
});
export type EndReport = z.infer<typeof endReportSchema>;

/** A report from a follow-up to its budget. A signal cannot be refused, so an invalid one is ignored. */
export const followUpReportSchema = z.discriminatedUnion('kind', [outcomeReportSchema, endReportSchema]);
export type FollowUpReport = z.infer<typeof followUpReportSchema>;

/**
 * Asks for a slot. Starts a new budget if Temporal keeps none of the project, not even a closed one. `repliedAtMs` is by
 * the server's clock.
 */
export const askUpdate = defineUpdate<AskReply & { repliedAtMs: number }, [Ask]>('ask');

/** The run that asks whether another run of its follow-up has delivered the message. */
export type Asker = Pick<Ask, 'workflowId' | 'runId' | 'messageTag'>;
export const wasDeliveredQuery = defineQuery<Delivered, [Asker]>('wasDelivered');

/** What follows the message of a failure, if an earlier run may have delivered the follow-up's message. */
export function describeEarlier(delivered: Delivered): string {
  if (delivered === 'no') return '';
  return `; an earlier run of the follow-up ${delivered === 'yes' ? 'has' : 'may have'} delivered it`;
}

export const reportSignal = defineSignal<[FollowUpReport]>('report');
export const replySignal = defineSignal<[Granted | Waiting]>('budgetReply');
/** Makes a follow-up in line ask again. A failed signal shows that the follow-up does not run. */
export const wakeSignal = defineSignal('wake');
