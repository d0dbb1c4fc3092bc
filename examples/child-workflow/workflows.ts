import {
  ApplicationFailure,
  ChildWorkflowFailure,
  executeChild,
  ParentClosePolicy,
  WorkflowIdReusePolicy,
  workflowInfo,
} from '@temporalio/workflow';
import {
  DEFAULT_TASK_QUEUE,
  type FailureDetails,
  type FollowUpInput,
  type FollowUpResult,
  followUpWorkflowId,
  WorkflowType,
} from 'agent-follow-up/contract';

type FollowUp = (input: FollowUpInput) => Promise<FollowUpResult>;

/** Returns the pull request, or how the follow-up failed and whether its message was delivered. */
export async function parentWorkflow(input: FollowUpInput) {
  try {
    const { status, prLink } = await executeChild<FollowUp>(WorkflowType.followUp, {
      args: [input],
      workflowId: followUpWorkflowId({ ...input, key: workflowInfo().workflowId }),
      taskQueue: DEFAULT_TASK_QUEUE,
      workflowIdReusePolicy: WorkflowIdReusePolicy.REJECT_DUPLICATE,
      parentClosePolicy: ParentClosePolicy.ABANDON,
    });
    return { status, prLink };
  } catch (error) {
    // Without a type: a used key, or a cancel before the send. This workflow ends in the same way.
    if (!(error instanceof ChildWorkflowFailure && error.cause instanceof ApplicationFailure)) throw error;
    const { type, details } = error.cause;
    const { delivered } = details?.[0] as FailureDetails;
    return { failure: type, delivered };
  }
}
