/** Exit codes of the command line. */
export const ExitCode = {
  /** The agent job was completed or archived, or the command did what it was asked to. */
  ok: 0,
  /** Something else went wrong, such as a worker that does not answer. */
  error: 1,
  /** Wrong usage, input or setting. */
  usage: 2,
  /** The follow-up has its result: the agent job failed. */
  jobFailed: 3,
  /** The follow-up failed or was cancelled. */
  followUpFailed: 4,
  /** Temporal cannot be reached. */
  unreachable: 5,
  /** Ended by Ctrl-C or SIGTERM; what was started goes on in Temporal. */
  interrupted: 130,
} as const;
export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode];
