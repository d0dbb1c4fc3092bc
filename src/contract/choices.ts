// The values that fields of inputs and results may have. This module imports nothing: the command line lists them in its
// help, which must not load the schemas.

/** Which follow-ups of a project go first when several wait for the budget. */
export const lanes = ['interactive', 'batch'] as const;
export type Lane = (typeof lanes)[number];

/** What a follow-up does when it cannot tell whether its message was delivered. */
export const unknownDeliveryActions = ['fail', 'assumeSent', 'resend'] as const;

/** What a follow-up does if the job works on another message. */
export const whenActiveActions = ['wait', 'send'] as const;

/** Whether a message reached the service. `unknown`: it cannot be found out. */
export const deliveredValues = ['yes', 'no', 'unknown'] as const;
export type Delivered = (typeof deliveredValues)[number];

/** What an operator can say about a message whose delivery is unknown. */
export const resolveWords = ['sent', 'notSent'] as const;
export type ResolveWord = (typeof resolveWords)[number];

/** States in which a follow-up has not sent and waits. */
export const waitingStates = ['waiting-for-budget', 'waiting-for-job', 'blocked'] as const;

/** States in which a follow-up may have sent. */
export const sendingStates = ['sending', 'reconciling', 'polling'] as const;

/** States of a follow-up that has not ended. */
export const openStates = [...waitingStates, ...sendingStates] as const;
export type OpenState = (typeof openStates)[number];

/** States of a follow-up that has ended. `endOf` of the contract chooses one. */
export const endStates = [
  'completed',
  'archived',
  'job-failed',
  'not-sent',
  'delivery-unknown',
  'cancelled',
  'timed-out',
] as const;
export type EndState = (typeof endStates)[number];

/** All states of a follow-up, as its search attribute `FollowUpState` shows them. */
export const followUpStates = [...openStates, ...endStates] as const;
export type FollowUpState = (typeof followUpStates)[number];

/** Which items a retry of a batch sends again. */
export const retryChoices = ['unknown', 'failed'] as const;
export type RetryChoice = (typeof retryChoices)[number];

/**
 * What a firing of a schedule does if the previous one is still running. Terminating that one is not on offer, because
 * its follow-ups would continue without a batch to report to.
 */
export const scheduleOverlaps = ['skip', 'buffer-one', 'buffer-all', 'cancel-other', 'allow-all'] as const;
export type ScheduleOverlap = (typeof scheduleOverlaps)[number];
