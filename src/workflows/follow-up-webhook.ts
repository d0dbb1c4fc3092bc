import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  ApplicationFailure,
  CancellationScope,
  isCancellation,
  ParentClosePolicy,
  proxyActivities,
  proxyLocalActivities,
  rootCause,
  setCurrentDetails,
  setWorkflowOptions,
  startChild,
  upsertSearchAttributes,
  WorkflowIdReusePolicy,
  workflowInfo,
} from '@temporalio/workflow';
import { iso, markdownCode as code, toMarkdown } from '../common/index.js';
import { type InputIssue, parseInput, SearchAttribute, type Webhook, WorkflowType } from '../contract/index.js';
import {
  WEBHOOK_NOT_DELIVERED,
  webhookId,
  type WebhookRequest,
  webhookRequestSchema,
  webhookWorkflowId,
} from '../protocol/index.js';
import type { WebhookActivities } from '../webhooks/webhook-activities.js';
import { accept, invalidInput } from './failures.js';
import { isFirstRun, isVersioned } from './this-run.js';
import { describeWebhook, type WebhookState } from './webhook-details.js';

const { listTargets } = proxyLocalActivities<WebhookActivities>({
  startToCloseTimeout: '10s',
  retry: { initialInterval: '1s', maximumInterval: '60s' },
});

const TRIED_FOR_MS = 3 * 86_400_000;

const { deliverWebhook } = proxyActivities<WebhookActivities>({
  // Longer than the deadline of one attempt.
  startToCloseTimeout: '30s',
  scheduleToCloseTimeout: TRIED_FOR_MS,
  // For attempts that never report. The others set the time of the next one.
  retry: { initialInterval: '5s', maximumInterval: '1h' },
  // Below all sends and polls.
  priority: { priorityKey: 5 },
});

/** Names of known targets that an error shows. */
const MAX_SHOWN = 20;

/**
 * Delivers one webhook to one target, and tries for 3 days. It is a workflow of its own, so that nothing waits for a
 * receiver.
 *
 * @throws ApplicationFailure `WebhookNotDelivered`. A reset then starts another 3 days, with the same id
 */
export async function followUpWebhook(input: unknown): Promise<void> {
  const request = accept(parseInput(webhookRequestSchema, input));
  // The signature vouches that the body is true.
  if (workflowInfo().parent?.workflowId !== request.body.data.workflowId) {
    throw invalidInput([{ field: '', message: 'only a follow-up or a batch may start a webhook, with notify' }]);
  }
  const triedUntil = iso(Date.now() + TRIED_FOR_MS);
  const show = (state: WebhookState, reason?: string) => {
    upsertSearchAttributes([{ key: SearchAttribute.state, value: state }]);
    const progress = { state, triedUntil, reason, isVersioned: isVersioned() };
    setCurrentDetails(toMarkdown((at) => describeWebhook(request, progress, at), Date.now()));
  };
  show('delivering');
  try {
    await deliverWebhook(request);
  } catch (error) {
    if (isCancellation(error)) {
      show('cancelled');
      throw error;
    }
    const message = rootCause(error) ?? 'no attempt has ended';
    show('not-delivered', message);
    throw ApplicationFailure.create({ type: WEBHOOK_NOT_DELIVERED, message, nonRetryable: true });
  }
  show('delivered');
}

// A receiver may be down until no worker of this version runs. The server refuses a behavior from workers without one.
setWorkflowOptions(() => (isVersioned() ? { versioningBehavior: 'AUTO_UPGRADE' } : {}), followUpWebhook);

/**
 * Divides names of webhook targets into those that the workers know and, as issues with the input, the others. A run
 * after a reset has no issues: an earlier one may have sent messages.
 */
export async function findTargets(notify: readonly string[]): Promise<{ targets: string[]; issues: InputIssue[] }> {
  if (notify.length === 0) return { targets: [], issues: [] };
  const targets = await CancellationScope.nonCancellable(() => listTargets());
  const shown = [...targets.slice(0, MAX_SHOWN), ...(targets.length > MAX_SHOWN ? ['…'] : [])].join(', ');
  const rule = targets.length > 0 ? `must be one of the workers' webhooks: ${shown}` : 'the workers have no webhooks';
  const unknown = isFirstRun() ? notify.filter((name) => !targets.includes(name)) : [];
  return {
    targets: notify.filter((name) => targets.includes(name)),
    issues: unknown.map((name) => ({ field: 'notify', message: `${rule} (given ${JSON.stringify(name)})` })),
  };
}

/** Starts a webhook to each target, and returns when they have started. */
export async function notify(targets: readonly string[], event: Omit<Webhook, 'timestamp'>): Promise<void> {
  const id = webhookId(workflowInfo().firstExecutionRunId, event);
  const body = { ...event, timestamp: iso(Date.now()) } as Webhook;
  const start = (target: string) => {
    const request: WebhookRequest = { target, id, body };
    return startChild(WorkflowType.followUpWebhook, {
      workflowId: webhookWorkflowId(request),
      args: [request],
      workflowIdReusePolicy: WorkflowIdReusePolicy.REJECT_DUPLICATE,
      parentClosePolicy: ParentClosePolicy.ABANDON,
      staticSummary: `${event.type} to ${target}`,
      // The page shows them without a worker, too.
      staticDetails: `Of ${code(event.data.workflowId)}. It is tried for 3 days after its start or its reset.`,
    }).catch((error: unknown) => {
      // Before a reset, it was started already.
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    });
  };
  await CancellationScope.nonCancellable(() => Promise.all([...new Set(targets)].map(start)));
}
