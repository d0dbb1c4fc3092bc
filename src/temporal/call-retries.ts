import { InterceptingCall, Metadata, status, type Interceptor } from '@grpc/grpc-js';
import { defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client';

/** How calls are repeated, as the SDK's `makeGrpcRetryInterceptor` takes it. */
export type CallRetryOptions = Partial<ReturnType<typeof defaultGrpcRetryOptions>>;

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
