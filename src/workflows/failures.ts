import { ApplicationFailure } from '@temporalio/workflow';
import { describeIssues, type FailureDetails, FailureType, type InputIssue, type Parsed } from '../contract/index.js';

/** A typed failure with {@link FailureDetails}, which say whether the message was delivered. */
export function failure(type: FailureType, message: string, details: FailureDetails): ApplicationFailure {
  return ApplicationFailure.create({ type, message, nonRetryable: true, details: [details] });
}

export function invalidInput(issues: InputIssue[]): ApplicationFailure {
  return failure(FailureType.InvalidInput, `Invalid input: ${describeIssues(issues)}`, { delivered: 'no', issues });
}

/** @throws ApplicationFailure `InvalidInput` */
export function accept<T>(parsed: Parsed<T>): T {
  if (parsed.ok) return parsed.value;
  throw invalidInput(parsed.issues);
}
