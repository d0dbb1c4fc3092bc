import type { FailureDetails } from '../contract/index.js';
import { BinaryUnavailableError } from '../embedded/resolve-steps.js';
import {
  BatchEndedError,
  BatchFailedError,
  BatchInputDiffersError,
  BatchNotFoundError,
  BatchRunningError,
  BudgetNotFoundError,
  BudgetRunningError,
  FollowUpCancelledError,
  FollowUpEndedError,
  FollowUpFailedError,
  FollowUpNotFoundError,
  FollowUpTerminatedError,
  FollowUpTimedOutError,
  InvalidInputError,
  NothingToRetryError,
  ResolveRejectedError,
  ScheduleError,
  TemporalUnreachableError,
  UnexpectedOutcomeError,
} from '../client/index.js';
import { ConfigError } from '../config/index.js';
import { ExitCode, InterruptedError, StartUnknownError, UsageError } from './cli.js';
import { BadLinesError } from './text-source.js';

/** An error as the command line reports it. */
export interface ReportedError extends Partial<FailureDetails> {
  type: string;
  message: string;
  workflowId?: string;
  badLineCount?: number;
}

/** The error and its exit code. */
export function classify(error: unknown): { exitCode: ExitCode; report: ReportedError } {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof InvalidInputError) {
    const { issues, delivered } = error;
    return { exitCode: ExitCode.usage, report: { type: 'InvalidInput', message, delivered, issues: [...issues] } };
  }
  if (error instanceof ConfigError) {
    const issues = error.issues.map(({ name, message }) => ({ field: name, message }));
    return { exitCode: ExitCode.usage, report: { type: 'ConfigError', message, issues } };
  }
  if (error instanceof BadLinesError) {
    const { badLineCount, issues } = error;
    return { exitCode: ExitCode.usage, report: { type: 'InvalidInput', message, badLineCount, issues: [...issues] } };
  }
  if (error instanceof UsageError) return { exitCode: ExitCode.usage, report: { type: 'Usage', message } };
  if (error instanceof InterruptedError) {
    return { exitCode: ExitCode.interrupted, report: { type: 'Interrupted', message, ...workflowIdOf(error) } };
  }
  if (error instanceof FollowUpFailedError) {
    const { type, details, workflowId } = error;
    return { exitCode: ExitCode.followUpFailed, report: { type, message, ...details, workflowId } };
  }
  if (error instanceof FollowUpCancelledError) {
    return outcome('Cancelled', error);
  }
  if (error instanceof FollowUpTerminatedError) return outcome('Terminated', error);
  if (error instanceof FollowUpTimedOutError) return outcome('TimedOut', error);
  if (error instanceof UnexpectedOutcomeError) return outcome('Unexpected', error);
  if (error instanceof StartUnknownError) {
    const { workflowId } = error;
    const report = { type: 'TemporalUnreachable', message, delivered: 'unknown' as const, workflowId };
    return { exitCode: ExitCode.unreachable, report };
  }
  if (error instanceof TemporalUnreachableError) {
    return {
      exitCode: ExitCode.unreachable,
      report: { type: 'TemporalUnreachable', message, ...workflowIdOf(error) },
    };
  }
  if (error instanceof BatchFailedError) {
    const { type, issues, workflowId } = error;
    return { exitCode: ExitCode.followUpFailed, report: { type, message, issues: [...issues], workflowId } };
  }
  if (
    error instanceof BatchEndedError ||
    error instanceof BatchInputDiffersError ||
    error instanceof BatchNotFoundError ||
    error instanceof BatchRunningError ||
    error instanceof NothingToRetryError ||
    error instanceof BudgetNotFoundError ||
    error instanceof BudgetRunningError ||
    error instanceof FollowUpNotFoundError ||
    error instanceof FollowUpEndedError ||
    error instanceof ResolveRejectedError
  ) {
    const { name, workflowId } = error;
    return { exitCode: ExitCode.usage, report: { type: name.replace(/Error$/, ''), message, workflowId } };
  }
  if (error instanceof ScheduleError) return { exitCode: ExitCode.usage, report: { type: error.type, message } };
  if (error instanceof BinaryUnavailableError)
    return { exitCode: ExitCode.error, report: { type: 'BinaryUnavailable', message } };
  const type = error instanceof Error ? error.name.replace(/(.)Error$/, '$1') : 'Error';
  return { exitCode: ExitCode.error, report: { type, message, ...workflowIdOf(error) } };
}

function outcome(
  type: string,
  error: { message: string; delivered: 'no' | 'unknown'; workflowId: string },
): { exitCode: ExitCode; report: ReportedError } {
  const { message, delivered, workflowId } = error;
  return { exitCode: ExitCode.followUpFailed, report: { type, message, delivered, workflowId } };
}

function workflowIdOf(error: unknown): { workflowId?: string } {
  return error instanceof Error && 'workflowId' in error && typeof error.workflowId === 'string'
    ? { workflowId: error.workflowId }
    : {};
}
