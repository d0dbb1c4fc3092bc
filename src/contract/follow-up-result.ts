import { z } from 'zod';
import { agentJobSchema, type TerminalStatus, terminalStatuses } from './agent-job.js';
import { type EndState, endStates } from './choices.js';
import { type Delivered, FailureType } from './failures.js';

/** Result of the `followUp` workflow, for every terminal status: a failed agent job is a result, too. */
export const followUpResultSchema = z.object({
  projectId: z.string(),
  jobId: z.string(),
  status: z.enum(terminalStatuses),
  /** URL of the pull request; `null` where the agent made none. */
  prLink: z.string().nullable(),
  /** Whether `prLink` differs from the one before the message was sent. */
  prLinkChanged: z.boolean(),
  /** How delivery is known: the service said so, the job shows it, or `onUnknownDelivery: 'assumeSent'` or an operator. */
  delivery: z.enum(['sent', 'inferred', 'assumed']),
  /** Whether the job was seen at work on this message. `false`: believed because `settleTime` had passed, or by change. */
  observedActive: z.boolean(),
  /** When the send was settled; for `inferred` and `assumed` when it was granted. ISO 8601, UTC. */
  sentAt: z.string(),
  finishedAt: z.string(),
  /** Reads of the job since the send, failed ones included; without those of a watch that `pollNow` broke off. */
  polls: z.int(),
  /** The last job seen, whole, with fields that this project does not know. */
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
  /** The agent job failed, which is a result, or (`failure`) it was gone after the message was delivered. */
  | { state: 'job-failed'; failure: EndFailure | null }
  /** Nothing was delivered; `failure` says why. */
  | { state: 'not-sent'; failure: EndFailure }
  /** Whether the message was delivered cannot be told, whatever else ended the follow-up. */
  | { state: 'delivery-unknown'; failure: EndFailure }
  /** Somebody cancelled it. Its message was delivered, or provably was not: `failure` says which. */
  | { state: 'cancelled'; failure: EndFailure }
  /** The message was delivered, and the agent job did not end in time. */
  | { state: 'timed-out'; failure: EndFailure };

/** How a follow-up has ended that ends with a result, or with a failure. The only place that decides. */
export function endOf(ending: { status: TerminalStatus } | EndFailure): EndedStanding {
  if ('status' in ending) {
    return ending.status === 'failed' ? { state: 'job-failed', failure: null } : { state: ending.status };
  }
  const { type, message, delivered } = ending;
  return { state: failedStateOf(ending), failure: { type, message, delivered } };
}

/** Whether a state is one in which a follow-up has ended. */
export function isEndState(state: string): state is EndState {
  return endStates.some((known) => known === state);
}

/** Whether the message was delivered comes first: where that is not known, nothing else about the end matters as much. */
function failedStateOf({ type, delivered }: EndFailure): Exclude<EndState, 'completed' | 'archived'> {
  if (delivered === 'unknown') return 'delivery-unknown';
  if (type === FailureType.Cancelled) return 'cancelled';
  if (delivered === 'no') return 'not-sent';
  return type === FailureType.JobTimeout ? 'timed-out' : 'job-failed';
}
