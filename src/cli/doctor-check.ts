import { FollowUpClientError } from '../client/index.js';
import { defined } from '../contract/defined.js';
import { describeGrpcError } from '../temporal/grpc.js';
import { safeLine } from '../terminal-text.js';
import { clock } from './text.js';

/** `note`: worth knowing, but nothing to do. */
export type CheckStatus = 'ok' | 'note' | 'warning' | 'error';

/** One thing that the doctor examined. */
export interface Check {
  /** Kind of thing, such as `budget`. */
  name: string;
  /** Which one, if there are several: a workflow id, a project, a task queue. */
  subject?: string;
  status: CheckStatus;
  /** What was found, including the subject. */
  message: string;
  /** Since when, ISO 8601, if known. */
  since?: string;
  /** Why it matters. */
  why?: string;
  /** The command or step that fixes it. */
  fix?: string;
}

/** Makes a check from what `examine` returns or throws. */
export async function check(
  { name, why, fix }: Pick<Check, 'name' | 'why' | 'fix'>,
  examine: () => Promise<string>,
): Promise<Check> {
  try {
    return { name, status: 'ok', message: await examine() };
  } catch (error) {
    return {
      name,
      status: 'error',
      message: messageOf(error),
      ...defined({ why, fix }),
    };
  }
}

/** What a failed call of Temporal said. */
export function messageOf(error: unknown): string {
  return error instanceof FollowUpClientError ? error.message : describeGrpcError(error);
}

/** Whether a person has to do something. */
export function isFinding({ status }: Check): boolean {
  return status === 'error' || status === 'warning';
}

/** Stays the same while a finding lasts, even if counts in its message change. */
export function identityOf({ name, subject, status, fix }: Check): string {
  return JSON.stringify([name, subject, status, fix]);
}

/** A check as one line, plus a line each for since when, why it matters, and how to fix it. */
export function describeCheck({ name, status, message, since, why, fix }: Check): string {
  return [
    `${status.padEnd(7)}  ${name.padEnd(17)}  ${safeLine(message)}`,
    since === undefined ? '' : `${INDENT}since ${clock(since)}`,
    why === undefined ? '' : `${INDENT}${safeLine(why)}`,
    fix === undefined ? '' : `${INDENT}-> ${safeLine(fix)}`,
  ]
    .filter(Boolean)
    .join('\n');
}

const INDENT = ' '.repeat(28);
