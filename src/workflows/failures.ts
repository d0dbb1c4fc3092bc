import { ApplicationFailure } from '@temporalio/workflow';
import { FailureType, type FailureDetails, type InputIssue } from '../contract/index.js';
import { describeIssues } from '../contract/validation.js';

/** A typed failure whose first detail says truly whether the message was delivered. */
export function failure(type: FailureType, message: string, details: FailureDetails): ApplicationFailure {
  return ApplicationFailure.create({ type, message, nonRetryable: true, details: [details] });
}

/** Input that breaks rules: nothing was sent. */
export function invalidInput(issues: InputIssue[]): ApplicationFailure {
  return failure(FailureType.InvalidInput, `Invalid input: ${describeIssues(issues)}`, { delivered: 'no', issues });
}
