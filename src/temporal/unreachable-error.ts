/** Base of all errors that the client library throws deliberately. */
export abstract class FollowUpClientError extends Error {
  abstract override readonly name: string;
  /** The kind of error, as in the documents of `follow-up --json`. */
  abstract readonly type: string;
  /** Exit code of the command line. */
  abstract readonly exitCode: number;
}

/**
 * Thrown when Temporal cannot be used: it does not answer, refuses the credentials, or lacks the namespace. A start
 * that fails with this error may have taken effect. Starting again with the same key is always safe.
 */
export class TemporalUnreachableError extends FollowUpClientError {
  override readonly name = 'TemporalUnreachableError' as const;
  readonly type = 'TemporalUnreachable' as const;
  readonly exitCode = 5;

  constructor(
    readonly address: string | undefined,
    /** Why it does not answer, or what it does instead, such as `it refuses access`. */
    readonly reason: string,
    /** The workflow that the call was about. */
    readonly workflowId?: string,
    options?: ErrorOptions,
  ) {
    const what = reason.startsWith('it ') ? reason.slice('it '.length) : `cannot be reached: ${reason}`;
    super(`Temporal${address ? ` at ${address}` : ''} ${what}`, options);
  }
}
