import { FollowUpClientError } from '../client/index.js';
import { defined } from '../contract/defined.js';
import { describeGrpcError } from '../temporal/grpc.js';
import { safeLine } from '../terminal-text.js';
import { clock } from './follow-up-text.js';

/** `note`: worth knowing, and nothing to do. */
export type CheckStatus = 'ok' | 'note' | 'warning' | 'error';

/** One thing that the doctor looked at. */
export interface Check {
  /** What kind of thing it is, such as `budget`. */
  name: string;
  /** Which one of them, where there are several: a workflow id, a project, a task queue. */
  subject?: string;
  status: CheckStatus;
  /** What was found, the subject included. */
  message: string;
  /** Since when, ISO 8601, where that is known. */
  since?: string;
  /** Why it matters. */
  why?: string;
  /** The command or the step that mends it. */
  mend?: string;
}

/** Makes a check of what `examine` says, or throws. */
export async function check(
  { name, why, mend }: Pick<Check, 'name' | 'why' | 'mend'>,
  examine: () => Promise<string>,
): Promise<Check> {
  try {
    return { name, status: 'ok', message: await examine() };
  } catch (error) {
    return {
      name,
      status: 'error',
      message: messageOf(error),
      ...defined({ why, mend }),
    };
  }
}

/** What a failed call of Temporal said. */
export function messageOf(error: unknown): string {
  return error instanceof FollowUpClientError ? error.message : describeGrpcError(error);
}

/** Whether somebody has to do something. */
export function isFinding({ status }: Check): boolean {
  return status === 'error' || status === 'warning';
}

/** The same for a thing that stands as it stood, though its message counts on. */
export function identityOf({ name, subject, status, mend }: Check): string {
  return JSON.stringify([name, subject, status, mend]);
}

/** A check as a line, and a line each for since when, why it matters, and what mends it. */
export function describeCheck({ name, status, message, since, why, mend }: Check): string {
  return [
    `${status.padEnd(7)}  ${name.padEnd(17)}  ${safeLine(message)}`,
    since === undefined ? '' : `${INDENT}since ${clock(since)}`,
    why === undefined ? '' : `${INDENT}${safeLine(why)}`,
    mend === undefined ? '' : `${INDENT}-> ${safeLine(mend)}`,
  ]
    .filter(Boolean)
    .join('\n');
}

const INDENT = ' '.repeat(28);
