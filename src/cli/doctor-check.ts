import { safeLine } from './safe-text.js';

export type CheckStatus = 'ok' | 'warning' | 'error';

/** One thing that the doctor looked at. */
export interface Check {
  name: string;
  status: CheckStatus;
  message: string;
  /** What to do about it. */
  mend?: string;
}

/** A check as a line, and its mend as another. */
export function describeCheck({ name, status, message, mend }: Check): string {
  const line = `${status.padEnd(7)}  ${name.padEnd(17)}  ${safeLine(message)}`;
  return mend === undefined ? line : `${line}\n${' '.repeat(28)}-> ${mend}`;
}
