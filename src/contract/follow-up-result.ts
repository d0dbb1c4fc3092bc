import { z } from 'zod';
import { agentJobSchema, terminalStatuses } from './agent-job.js';

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
