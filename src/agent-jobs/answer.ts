import type { Dispatcher } from 'undici';

/** The headers of an answer, names in lower case. */
export type ResponseHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** An answer whose final status line came. */
export interface Answer {
  statusCode: number;
  headers: ResponseHeaders;
  /** Missing where it was lost or too long. */
  body?: string;
}

/** The total deadline of a request has passed. */
export class DeadlineError extends Error {
  override name = 'DeadlineError' as const;
}

/**
 * Reads an answer into `attempt`: status and headers as soon as they are there, so that they count even when the body
 * is lost. Gives the error that ended the exchange early, or `undefined` when the answer was read to its end.
 */
export async function readAnswer(
  response: Promise<Dispatcher.ResponseData>,
  attempt: { answer?: Answer },
): Promise<unknown> {
  try {
    const { statusCode, headers, body } = await response;
    const answer: Answer = { statusCode, headers };
    attempt.answer = answer;
    answer.body = await body.text();
    return undefined;
  } catch (error) {
    return error ?? new Error('the request failed without an error');
  }
}

/**
 * The error of `exchange`, or a {@link DeadlineError} when it has not ended by then. A race, since an abort is not
 * noticed by a request that still waits for its connection.
 */
export async function withinDeadline(deadlineMs: number, exchange: Promise<unknown>): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<DeadlineError>((resolve) => {
    timer = setTimeout(() => resolve(new DeadlineError(`the deadline of ${deadlineMs} ms has passed`)), deadlineMs);
  });
  try {
    return await Promise.race([deadline, exchange]);
  } finally {
    clearTimeout(timer);
  }
}
