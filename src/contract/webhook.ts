import { z } from 'zod';
import { object } from '../common/index.js';
import { batchStatusSchema, followUpBatchResultSchema } from './batch-result.js';
import { deliveredValues, endStates } from './choices.js';
import { terminalStatuses } from './follow-up-result.js';

const workflowId = z.string();
const timestamp = z.iso.datetime();

const followUpEndSchema = object({
  workflowId,
  /** Missing if it is not valid. */
  projectId: z.string().exactOptional(),
  /** Missing if it is not valid. */
  jobId: z.string().exactOptional(),
  /** Set for an item of a batch. */
  batchId: z.string().exactOptional(),
  state: z.enum(endStates),
  /** The agent job's status. Missing if the follow-up ended without a result. */
  status: z.enum(terminalStatuses).exactOptional(),
  /** URL of the pull request; `null` if the agent made none. Missing if a data converter keeps links private. */
  prLink: z.string().nullable().exactOptional(),
  /** Whether the message reached the service. An assumed delivery is `unknown`. */
  delivered: z.enum(deliveredValues),
  /** The failure type of a follow-up that ended without a result. */
  failure: z.string().exactOptional(),
});
/** What a webhook reports about the end of a follow-up. */
export type FollowUpEnd = z.infer<typeof followUpEndSchema>;

/** The body of a webhook: what happened, when, and ids, states and counts. It never has the prompt. */
export const webhookSchema = z.discriminatedUnion('type', [
  object({ type: z.literal('follow-up.ended'), timestamp, data: followUpEndSchema }),
  object({
    type: z.literal('batch.ended'),
    timestamp,
    data: followUpBatchResultSchema.omit({ items: true, truncated: true }).extend({ workflowId, batchId: z.string() }),
  }),
  object({
    type: z.literal('batch.held'),
    timestamp,
    data: batchStatusSchema.required({ hold: true }).extend({ workflowId }),
  }),
]);
export type Webhook = z.infer<typeof webhookSchema>;
