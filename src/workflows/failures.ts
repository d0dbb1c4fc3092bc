import { ApplicationFailure } from '@temporalio/workflow';
import {
  type Delivered,
  describeIssues,
  type FailureDetails,
  FailureType,
  type InputIssue,
  type Parsed,
} from '../contract/index.js';
import { describeEarlier } from '../protocol/index.js';

/** A typed failure with {@link FailureDetails}, which say whether the message was delivered. */
export function failure(type: FailureType, message: string, details: FailureDetails): ApplicationFailure {
  return ApplicationFailure.create({ type, message, nonRetryable: true, details: [details] });
}

/** @param delivered by earlier runs of a follow-up */
export function invalidInput(issues: InputIssue[], delivered: Delivered = 'no'): ApplicationFailure {
  const message = `Invalid input: ${describeIssues(issues)}${describeEarlier(delivered)}`;
  return failure(FailureType.InvalidInput, message, { delivered, issues });
}

/** @throws ApplicationFailure `InvalidInput` */
export function accept<T>(parsed: Parsed<T>): T {
  if (parsed.ok) return parsed.value;
  throw invalidInput(parsed.issues);
}
