import { defaultGrpcRetryOptions, isGrpcServiceError, makeGrpcRetryInterceptor } from '@temporalio/client';
import { InterceptingCall, type Interceptor, Metadata, status } from '@grpc/grpc-js';

/** Status codes that this project tells apart, of the {@link https://grpc.io/docs/guides/status-codes/ | gRPC specification}. */
export const GrpcStatus = {
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  alreadyExists: 6,
  permissionDenied: 7,
  resourceExhausted: 8,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
} as const;

/** The status of the gRPC error in a chain of causes. */
export function grpcStatusOf(error: unknown): number | undefined {
  return grpcErrorIn(error)?.code;
}

/** What a failed call of Temporal said, in one line. */
export function describeGrpcError(error: unknown): string {
  const text = grpcErrorIn(error)?.details ?? (error instanceof Error ? error.message : String(error));
  return text.replace(/\s+/g, ' ').trim();
}

function grpcErrorIn(error: unknown): { code: number; details: string } | undefined {
  for (let current = error; current instanceof Error; current = current.cause) {
    if (isGrpcServiceError(current)) return { code: current.code, details: current.details };
  }
  return undefined;
}

/** How calls are repeated, as the SDK's `makeGrpcRetryInterceptor` takes it. */
type CallRetryOptions = Partial<ReturnType<typeof defaultGrpcRetryOptions>>;

/**
 * Interceptors for a connection whose calls are repeated. The SDK's own repeats from a timer, also after the connection was
 * closed, and what is thrown there ends the process. Here such a call ends with `CANCELLED`.
 *
 * @param options what differs from the SDK's defaults
 */
export function callRetries(options: CallRetryOptions = {}): Interceptor[] {
  return [makeGrpcRetryInterceptor({ ...defaultGrpcRetryOptions(), ...options }), cancelAfterClose];
}

const cancelAfterClose: Interceptor = (options, nextCall) => {
  try {
    return new InterceptingCall(nextCall(options));
  } catch (error) {
    const details = error instanceof Error ? error.message : String(error);
    return new InterceptingCall({
      start: (_metadata, listener) =>
        listener?.onReceiveStatus?.({ code: status.CANCELLED, details, metadata: new Metadata() }),
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
