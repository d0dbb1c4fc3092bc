import { setTimeout as sleep } from 'node:timers/promises';
import { InterceptingCall, type Interceptor, Metadata, status } from '@grpc/grpc-js';
import { defaultGrpcRetryOptions, isGrpcServiceError, makeGrpcRetryInterceptor } from '@temporalio/client';
import type { Timestamp } from '@temporalio/common';
import { messageOf } from '../common/index.js';
import { maskSecrets } from '../secrets/secrets.js';

/** The gRPC status codes that this project needs. A copy, because the client package has no `@grpc/grpc-js`. */
export const GrpcStatus = {
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  UNAUTHENTICATED: 16,
} as const;

/** The status of the gRPC error in a chain of causes. */
export function grpcStatusOf(error: unknown): number | undefined {
  return grpcErrorIn(error)?.code;
}

const PASSING: readonly unknown[] = [
  GrpcStatus.UNAVAILABLE,
  GrpcStatus.RESOURCE_EXHAUSTED,
  GrpcStatus.DEADLINE_EXCEEDED,
];

/** Whether a retry may help: the server is away or overloaded, or did not answer in time. */
export function isPassingTrouble(error: unknown): boolean {
  return PASSING.includes(grpcStatusOf(error));
}

/** Waits before a retry. Rejects with the signal's reason instead of Node's own error. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await sleep(ms, undefined, signal && { signal }).catch((error: unknown) => {
    signal?.throwIfAborted();
    throw error;
  });
}

const BAD_HEADER = /^Metadata (?:string value|key) "/;

/** Whether a header has unsendable characters. The error quotes the header, which may be the API key. */
export function isBadHeader(error: unknown): boolean {
  return withCauses(error).some(({ message }) => BAD_HEADER.test(message));
}

/** Describes a failed call to Temporal, without secrets, on one line of at most about 300 characters. */
export function describeGrpcError(error: unknown): string {
  if (isBadHeader(error)) return 'the API key or another header has characters that cannot be sent';
  const refusal = isAccessRefused(error) ? 'it refuses access: ' : '';
  return refusal + cleanDetails(grpcErrorIn(error)?.details ?? messageOf(error));
}

/** OpenSSL's own messages are addresses and source lines: `80DC:error:0A00010B:SSL routines:f:reason:../record.c:350:`. */
const OPENSSL_ERROR = /\w+:error:\w+:[^:]*:[^:]*:([^:]*):[^:]*:\d+:?/;
const NO_TLS = 'it does not speak TLS; check TEMPORAL_TLS, and TEMPORAL_API_KEY, which turns TLS on';

/** Cleans the details of a gRPC status, as {@link describeGrpcError} does. */
export function cleanDetails(details: string): string {
  return maskSecrets(details)
    .replace(/\s+/g, ' ')
    .replace(/^No connection established\. Last error: (?:Error: )?/, '')
    .replace(OPENSSL_ERROR, (_all, reason) => (reason === 'wrong version number' ? NO_TLS : `TLS failed: ${reason}`))
    .replace(/\.? Resolution note: ?$/, '')
    .trim()
    .slice(0, 300);
}

/** Whether the server refuses the credentials, or what they ask for. */
export function isAccessRefused(error: unknown): boolean {
  const status = grpcStatusOf(error);
  return status === GrpcStatus.PERMISSION_DENIED || status === GrpcStatus.UNAUTHENTICATED;
}

function grpcErrorIn(error: unknown): { code: number; details: string } | undefined {
  return withCauses(error).find(isGrpcServiceError);
}

function withCauses(error: unknown): Error[] {
  return error instanceof Error ? [error, ...withCauses(error.cause)] : [];
}

/** Makes connections of the client ignore `grpc_proxy`, `https_proxy` and `http_proxy`, as the worker's core does. */
export const WITHOUT_PROXY = { 'grpc.enable_http_proxy': 0 } as const;

/**
 * Interceptors for a connection with retries. The SDK's own interceptor retries from a timer, even after the connection
 * was closed, and an error thrown there ends the process. With these, the call ends with `CANCELLED`.
 *
 * @param options differences from the SDK's defaults
 */
export function callRetries(options: Partial<ReturnType<typeof defaultGrpcRetryOptions>> = {}): Interceptor[] {
  return [makeGrpcRetryInterceptor({ ...defaultGrpcRetryOptions(), ...options }), cancelAfterClose];
}

const cancelAfterClose: Interceptor = (options, nextCall) => {
  try {
    return new InterceptingCall(nextCall(options));
  } catch (error) {
    const details = messageOf(error);
    return new InterceptingCall({
      start: (_metadata, listener) => {
        // As in any unary call, because the SDK's interceptor expects it before the status.
        listener?.onReceiveMessage?.(null);
        listener?.onReceiveStatus?.({ code: status.CANCELLED, details, metadata: new Metadata() });
      },
      sendMessageWithContext: () => undefined,
      sendMessage: () => undefined,
      startRead: () => undefined,
      halfClose: () => undefined,
      cancelWithStatus: () => undefined,
      getPeer: () => '',
      getAuthContext: () => null,
    });
  }
};

/** Converts a time of Temporal's API to epoch milliseconds. */
export function timestampMs(timestamp: Timestamp | null | undefined): number {
  if (!timestamp) throw new TypeError('the response of Temporal lacks a time');
  const { seconds, nanos } = timestamp;
  return (seconds?.toNumber() ?? 0) * 1_000 + Math.floor((nanos ?? 0) / 1e6);
}
