import { z } from 'zod';
import { type EndState, endStates } from './choices.js';
import { type Delivered, FailureType } from './failures.js';

/**
 * A job as the service shows it. Every field may be missing (the sample answer of the message endpoint has no
 * `status`). Fields and statuses that the service adds later are accepted; such a status is not terminal.
 */
export const agentJobSchema = z.looseObject({
  id: z.string().optional(),
  status: z.string().optional(),
  source: z.looseObject({ repository: z.string().optional(), ref: z.string().nullish() }).optional(),
  model: z.string().optional(),
  prLink: z.string().nullish(),
  createdAt: z.string().optional(),
  archivedAt: z.string().nullish(),
});
export type AgentJob = z.infer<typeof agentJobSchema>;

/** The statuses that end a job's turn. */
export const terminalStatuses = ['completed', 'archived', 'failed'] as const;
export type TerminalStatus = (typeof terminalStatuses)[number];

/** Whether a status ends a turn. A missing or unknown status does not. */
export function isTerminalStatus(status: string | undefined): status is TerminalStatus {
  return (terminalStatuses as readonly (string | undefined)[]).includes(status);
}

/** Result of the `followUp` workflow, for every terminal status: a failed agent job is also a result. */
export const followUpResultSchema = z.object({
  projectId: z.string(),
  jobId: z.string(),
  status: z.enum(terminalStatuses),
  /** URL of the pull request; `null` if the agent made none. */
  prLink: z.string().nullable(),
  /** Whether `prLink` differs from the one before the message was sent. `false` if nobody knows that one. */
  prLinkChanged: z.boolean(),
  /** `sent`: the service confirmed it. `inferred`: the job shows it. `assumed`: `onUnknownDelivery` or an operator said so. */
  delivery: z.enum(['sent', 'inferred', 'assumed']),
  /** Whether the job was seen at work on this message. `false`: something changed, or `settleTime` passed. */
  observedActive: z.boolean(),
  /** When the send was settled; if `delivery` is `inferred` or `assumed`, when it was granted. ISO 8601, UTC. */
  sentAt: z.string(),
  finishedAt: z.string(),
  /** Reads of the job since the send, including failed ones, but not those of a watch that `pollNow` cut short. */
  polls: z.int(),
  /** The last job seen, including fields that this project does not know. */
  job: agentJobSchema,
});
export type FollowUpResult = z.infer<typeof followUpResultSchema>;

/** Why a follow-up has ended without a result. */
export interface EndFailure {
  type: FailureType;
  message: string;
  delivered: Delivered;
}

/** How a follow-up has ended. */
export type EndedStanding =
  /** With a result. */
  | { state: 'completed' | 'archived'; failure?: never }
  /** The agent job failed, which is a result, or (with `failure`) it disappeared after the message was delivered. */
  | { state: 'job-failed'; failure: EndFailure | null }
  /** Nothing was delivered; `failure` says why. */
  | { state: 'not-sent'; failure: EndFailure }
  /** Nobody can tell whether the message was delivered, whatever else ended the follow-up. */
  | { state: 'delivery-unknown'; failure: EndFailure }
  /** Somebody cancelled it. `failure` says whether its message was delivered. */
  | { state: 'cancelled'; failure: EndFailure }
  /** The message was delivered, and the agent job did not end in time. */
  | { state: 'timed-out'; failure: EndFailure };

/** The state in which a follow-up ends, from its result or its failure. Nothing else decides it. */
export function endOf(ending: { status: TerminalStatus } | EndFailure): EndedStanding {
  if ('status' in ending) {
    return ending.status === 'failed' ? { state: 'job-failed', failure: null } : { state: ending.status };
  }
  const { type, message, delivered } = ending;
  return { state: failedStateOf(ending), failure: { type, message, delivered } };
}

/** Whether a follow-up in this state has ended. */
export function isEndState(state: string): state is EndState {
  return endStates.some((known) => known === state);
}

/** An unknown delivery comes first: nothing else about the end matters as much. */
function failedStateOf({ type, delivered }: EndFailure): Exclude<EndState, 'completed' | 'archived'> {
  if (delivered === 'unknown') return 'delivery-unknown';
  if (type === FailureType.Cancelled) return 'cancelled';
  if (delivered === 'no') return 'not-sent';
  return type === FailureType.JobTimeout ? 'timed-out' : 'job-failed';
}
