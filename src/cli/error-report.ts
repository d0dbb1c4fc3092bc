import { defined } from '../common/index.js';
import type { Delivered, FailureDetails, InputIssue } from '../contract/index.js';
import { ExitCode } from './cli.js';

export interface ReportedError extends Partial<FailureDetails> {
  type: string;
  message: string;
  workflowId?: string;
  badLineCount?: number;
}

interface Reportable {
  type?: string;
  exitCode?: ExitCode;
  workflowId?: string;
  delivered?: Delivered;
  details?: Partial<FailureDetails>;
  issues?: readonly ((InputIssue | { name: string; message: string }) & { line?: number })[];
  badLineCount?: number;
}

/** The report and the exit code of an error. An error without a type is reported by its name, with exit code 1. */
export function reportOf(error: unknown): { exitCode: ExitCode; report: ReportedError } {
  if (!(error instanceof Error)) return { exitCode: ExitCode.error, report: { type: 'Error', message: String(error) } };
  const { name, message } = error;
  // Another library's error may have fields with the same names.
  const reportable = 'exitCode' in error ? (error as Reportable) : {};
  const { type, exitCode, workflowId, delivered, details, issues, badLineCount } = reportable;
  return {
    exitCode: exitCode ?? ExitCode.error,
    report: {
      type: type ?? name.replace(/(.)Error$/, '$1'),
      message,
      ...details,
      ...defined({ delivered: delivered ?? details?.delivered, badLineCount, workflowId }),
      ...(issues && {
        issues: issues.map((issue) => ('name' in issue ? { field: issue.name, message: issue.message } : issue)),
      }),
    },
  };
}
