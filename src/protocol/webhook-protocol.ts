// Messages between a workflow and the delivery of its webhooks. Not part of the published contract.
import { z } from 'zod';
import { hash64, object } from '../common/index.js';
import { targetNameSchema, type Webhook, webhookSchema, WorkflowIdPrefix } from '../contract/index.js';

/** Input of the `followUpWebhook` workflow. Internal: follow-ups and batches start it. */
export const webhookRequestSchema = object({
  target: targetNameSchema,
  /** Identifies the event: the header `webhook-id` of each attempt. */
  id: z.string().regex(/^[\w-]{1,64}$/),
  body: webhookSchema,
});
export type WebhookRequest = z.infer<typeof webhookRequestSchema>;

/** Id of an event. A repetition after a reset has the same id, unless its content differs. */
export function webhookId(firstRunId: string, event: Omit<Webhook, 'timestamp'>): string {
  // The order of counts by failure type is that of their arrival.
  const sorted = (_key: string, value: unknown) =>
    typeof value !== 'object' || value === null || Array.isArray(value)
      ? value
      : Object.fromEntries(Object.entries(value).sort());
  return `${firstRunId}-${hash64(JSON.stringify(event, sorted))}`;
}

export function webhookWorkflowId({ target, id }: Pick<WebhookRequest, 'target' | 'id'>): string {
  return `${WorkflowIdPrefix.followUpWebhook}${target}/${id}`;
}

/** `ApplicationFailure.type` of a webhook that its receiver has not accepted. */
export const WEBHOOK_NOT_DELIVERED = 'WebhookNotDelivered';

/**
 * The command that sends a webhook again. Its new run would begin on the worker version of the follow-up or batch that
 * started it, which may be gone.
 */
export function webhookResetCommand(workflowId: string, isVersioned: boolean): string {
  const moved = isVersioned ? 'with-workflow-update-options --versioning-override-behavior auto_upgrade ' : '';
  return `temporal workflow reset ${moved}--type FirstWorkflowTask --reason again --workflow-id ${workflowId}`;
}
