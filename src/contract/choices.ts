// Possible values of fields of inputs and results. This module imports nothing, so that the command line's help does
// not load the schemas.

/** Lanes of a project's budget, in order of priority. */
export const lanes = ['interactive', 'batch'] as const;
export type Lane = (typeof lanes)[number];

/** What a follow-up does when its delivery is unknown. */
export const unknownDeliveryActions = ['fail', 'assumeSent', 'resend'] as const;

/** What a follow-up does while the job works on another message. */
export const whenActiveActions = ['wait', 'send'] as const;

/** Whether a message reached the service. */
export const deliveredValues = ['yes', 'no', 'unknown'] as const;
export type Delivered = (typeof deliveredValues)[number];

/** An operator's decisions about an unknown delivery. */
export const deliveryDecisions = ['sent', 'notSent'] as const;
export type DeliveryDecision = (typeof deliveryDecisions)[number];

/** States of a follow-up that waits before its send. */
export const waitingStates = ['waiting-for-budget', 'waiting-for-job', 'blocked'] as const;

/** States in which a follow-up may have sent. */
export const sendingStates = ['sending', 'reconciling', 'polling'] as const;

/** States of a follow-up that has not ended. */
export const openStates = [...waitingStates, ...sendingStates] as const;
export type OpenState = (typeof openStates)[number];

/** States of a follow-up that has ended. See `endOf`. */
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
 * What a firing of a schedule does while the previous one still runs. Terminating the previous one is not offered,
 * because its follow-ups would continue without a batch.
 */
export const scheduleOverlaps = ['skip', 'buffer-one', 'buffer-all', 'cancel-other', 'allow-all'] as const;
export type ScheduleOverlap = (typeof scheduleOverlaps)[number];
