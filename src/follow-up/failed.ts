import { defined } from '../common/index.js';
import { type Delivered, type FailureDetails, FailureType } from '../contract/index.js';
import type { EarlierSend } from '../protocol/index.js';
import type { SendResult } from './port.js';
import type { Doubt } from './step-context.js';

/** Thrown when a follow-up ends without a result. */
export class Failed extends Error {
  constructor(
    readonly type: FailureType,
    message: string,
    readonly delivered: Delivered,
    readonly details: Pick<FailureDetails, 'statusCode' | 'serviceMessage' | 'issues'> = {},
  ) {
    super(message);
  }
}

/** The follow-up ends before a send, or after one that did not arrive. */
export function unsent(doubt: Doubt, type: FailureType, message: string): Failed {
  const text = doubt.exists ? `${message}; an earlier send of it may have been delivered` : message;
  return new Failed(type, text, doubt.delivered());
}

export function jobNotFound(message: string, delivered: Delivered): Failed {
  const details = { statusCode: 404, serviceMessage: message };
  return new Failed(FailureType.JobNotFound, `The service does not know the job: ${message}`, delivered, details);
}

export function messageRejected(doubt: Doubt, sent: SendResult): Failed {
  const { message, statusCode } = sent;
  const details = defined({ serviceMessage: message, statusCode });
  const text = `The service refused the message: ${message ?? 'the reason is in the history of an earlier run'}`;
  return new Failed(FailureType.MessageRejected, text, doubt.delivered(), details);
}

/** An earlier send may have arrived, and this run cannot learn more about it. */
export function keyUsed(verdict: 'superseded' | 'forgotten', outcome: EarlierSend['outcome']): Failed {
  const isForgotten = verdict === 'forgotten';
  const message = isForgotten
    ? 'The budget does not remember whether an earlier run of this follow-up sent the message'
    : 'The key was used before, and the job may have moved on to another message';
  return new Failed(FailureType.Closed, message, !isForgotten && outcome === 'sent' ? 'yes' : 'unknown');
}
