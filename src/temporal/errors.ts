/** Every error that the client library throws on purpose. */
export abstract class FollowUpClientError extends Error {
  abstract override readonly name: string;
  /** What went wrong, the same word as in the documents of `follow-up --json`. */
  abstract readonly type: string;
  /** Exit code with which the command line reports it. */
  abstract readonly exitCode: number;
}

/**
 * Thrown when Temporal cannot be used: it does not answer, refuses the credentials, or lacks the namespace. A start
 * that fails with this error may have taken effect: start again with the same key, which is safe at any time.
 */
export class TemporalUnreachableError extends FollowUpClientError {
  override readonly name = 'TemporalUnreachableError' as const;
  readonly type = 'TemporalUnreachable' as const;
  readonly exitCode = 5;

  constructor(
    readonly address: string | undefined,
    readonly reason: string,
    /** The workflow that was being started or waited for. */
    readonly workflowId?: string,
    options?: ErrorOptions,
  ) {
    super(`Temporal${address ? ` at ${address}` : ''} cannot be reached: ${reason}`, options);
  }
}
