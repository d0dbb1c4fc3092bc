import { Client, type Dispatcher } from 'undici';
import { type HttpResponse, readResponse, withinDeadline } from './response.js';
import { createSingleConnection } from './single-connection.js';

export interface PostRequest {
  origin: string;
  path: string;
  headers: Record<string, string>;
  body: string;
  /** For everything: connecting, TLS, writing, waiting, and reading the response. */
  deadlineMs: number;
  /** For connecting, and again for the TLS handshake, within the deadline. */
  connectTimeoutMs: number;
  maxResponseBytes: number;
  /** Certificate authorities to trust instead of the well-known ones, PEM. */
  ca?: string | undefined;
  /** The last check, after connecting and TLS and before the first byte of the request; `false` sends nothing. */
  mayStart: () => boolean;
}

export type PostResult =
  /** Certainly no byte of the request was written. `isVetoed`: `mayStart` refused, or the deadline had passed. */
  | { kind: 'notStarted'; isVetoed: boolean; error: unknown }
  /** It started without a response: it may or may not have been delivered. */
  | { kind: 'noResponse'; error: unknown }
  /** A final status line arrived. `error` says why its body is missing. */
  | { kind: 'response'; response: HttpResponse; error: unknown };

class VetoedError extends Error {
  override name = 'VetoedError' as const;
}

interface Attempt {
  started: boolean;
  isVetoed: boolean;
  over: boolean;
  response?: HttpResponse;
}

/**
 * Sends a POST at most once: on its own connection, without reuse, retries, redirects or decompression. Never throws.
 *
 * What a failure means depends on whether the request started, not on its error code: ECONNRESET and similar codes
 * occur for both delivered and undelivered requests. undici calls `onRequestStart` just before the first byte, in the
 * same tick, and a request aborted there writes nothing.
 */
export async function postOnce(request: PostRequest): Promise<PostResult> {
  const attempt: Attempt = { started: false, isVetoed: false, over: false };
  const connection = createSingleConnection({ connectTimeoutMs: request.connectTimeoutMs, ca: request.ca });
  const client = new Client(request.origin, {
    connect: connection.connect,
    pipelining: 0,
    maxResponseSize: request.maxResponseBytes,
    // The total deadline covers both.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  const { path, headers, body } = request;
  const response = client.compose(startCheck(request, attempt)).request({ method: 'POST', path, headers, body });
  const error = await withinDeadline(request.deadlineMs, readResponse(response, attempt));
  // From now on nothing may start, and no unsent byte may leave.
  attempt.over = true;
  if (error !== undefined) connection.reset();
  void client.destroy().catch(() => undefined);

  if (attempt.response) return { kind: 'response', response: attempt.response, error };
  if (attempt.started) return { kind: 'noResponse', error };
  return { kind: 'notStarted', isVetoed: attempt.isVetoed, error };
}

/** Records that this request starts, or prevents its start. */
function startCheck(request: PostRequest, attempt: Attempt): Dispatcher.DispatcherComposeInterceptor {
  return (dispatch) => (options, handler) =>
    dispatch(options, {
      onRequestStart(controller, context) {
        if (attempt.over || attempt.started || !mayStart(request)) {
          attempt.isVetoed = true;
          controller.abort(new VetoedError());
          return;
        }
        attempt.started = true;
        handler.onRequestStart?.(controller, context);
      },
      onRequestUpgrade: (...parameters) => handler.onRequestUpgrade?.(...parameters),
      onResponseStart: (...parameters) => handler.onResponseStart?.(...parameters),
      onResponseData: (...parameters) => handler.onResponseData?.(...parameters),
      onResponseEnd: (...parameters) => handler.onResponseEnd?.(...parameters),
      onResponseError: (...parameters) => handler.onResponseError?.(...parameters),
    });
}

/** A check that throws refuses. */
function mayStart(request: PostRequest): boolean {
  try {
    return request.mayStart();
  } catch {
    return false;
  }
}
