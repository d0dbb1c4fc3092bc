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

/** The arguments are wrong in a way that only the command itself could see. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Temporal went away during a start: whether it has begun is not known, and the same id makes another try safe. */
export class StartUnknownError extends Error {
  override readonly name = 'StartUnknownError';

  /** @param again the command that makes another try, such as `the same command` */
  constructor(
    cause: Error,
    readonly workflowId: string,
    again: string,
  ) {
    super(`${cause.message}; if ${workflowId} was started it goes on, and ${again} finds it`, { cause });
  }
}

/** Ended by Ctrl-C or SIGTERM. */
export class InterruptedError extends Error {
  override readonly name = 'InterruptedError';
  /** The follow-up that goes on, where there is one. */
  workflowId?: string;

  constructor(readonly signal: NodeJS.Signals) {
    super(`interrupted by ${signal}`);
  }
}
