import { type At, type Description, markdownCode as code } from '../common/index.js';
import { type WebhookRequest, webhookResetCommand, webhookWorkflowId } from '../protocol/index.js';

/** States of a webhook, as its search attribute `FollowUpState` shows them. */
export type WebhookState = 'delivering' | 'delivered' | 'not-delivered' | 'cancelled';

interface WebhookProgress {
  state: WebhookState;
  triedUntil: string;
  /** Why it was not delivered. */
  reason: string | undefined;
  /** Whether it runs on a worker version. */
  isVersioned: boolean;
}

export function describeWebhook(
  request: WebhookRequest,
  { state, triedUntil, reason, isVersioned }: WebhookProgress,
  at: At,
): Description {
  const { type, timestamp, data } = request.body;
  const [headline, ...nextSteps] = describeState(state, webhookWorkflowId(request), isVersioned);
  return {
    headline: `${state}: ${headline}`,
    rows: [
      ['event', `${code(type)}, ${at(timestamp)}`],
      ['of', code(data.workflowId)],
      ['to', `webhook ${code(request.target)} of the workers' settings`],
      ['tried until', state === 'delivering' && `${at(triedUntil)} at the latest`],
      ['why', reason && code(reason)],
    ],
    nextSteps,
    newer:
      state === 'delivering' &&
      'the pending activity `deliverWebhook` shows the attempts, the last failure and the time of the next attempt',
  };
}

function describeState(
  state: WebhookState,
  workflowId: string,
  isVersioned: boolean,
): [headline: string, ...nextSteps: string[]] {
  const again = `to send it again, with the same id: ${code(webhookResetCommand(workflowId, isVersioned))}`;
  switch (state) {
    case 'delivering':
      return [
        'it is tried until the receiver accepts it',
        'no action is needed',
        'if attempts fail, fix the receiver',
        `to give it up: \`temporal workflow terminate --workflow-id ${workflowId}\``,
      ];
    case 'delivered':
      return ['the receiver accepted it', again];
    case 'not-delivered':
      return ['the receiver did not accept it', 'fix the receiver', again];
    case 'cancelled':
      return ['it is not tried again, but an attempt may have arrived', again];
  }
}
