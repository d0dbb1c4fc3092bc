import type * as net from 'node:net';
import { buildConnector } from 'undici';
import { defined } from '../common/index.js';
import { skipInterim } from './response.js';

export interface SingleConnectionOptions {
  /** For connecting, and again for the TLS handshake. */
  connectTimeoutMs: number;
  /** Certificate authorities to trust instead of the well-known ones, PEM. */
  ca?: string | undefined;
  /** Finds the addresses of a name. @default as Node.js does */
  lookup?: net.LookupFunction;
}

/** A connector for undici that makes one connection and keeps its TCP socket. */
export interface SingleConnection {
  connect: buildConnector.connector;
  /**
   * Ends the connection at once: drops the kernel's send buffer and sends an RST to the peer. After a normal close the
   * kernel would continue to deliver.
   */
  reset(): void;
}

/**
 * Makes the connection for one request. Refuses a second connection, so that undici cannot send the request again.
 * Ignores `HTTP_PROXY` and similar variables.
 */
export function createSingleConnection({ connectTimeoutMs, ca, lookup }: SingleConnectionOptions): SingleConnection {
  const connect = buildConnector({ timeout: connectTimeoutMs, ...defined({ ca, lookup }) });
  let isUsed = false;
  let tcp: net.Socket | undefined;
  return {
    connect(target, done) {
      if (isUsed) {
        done(new Error('the connection was lost, and the message is not sent over a second one'), null);
        return;
      }
      isUsed = true;
      const isSecure = target.protocol === 'https:';
      const finish: buildConnector.Callback = (...[error, socket]) =>
        error ? done(error, null) : done(null, skipInterim(socket));
      const port = target.port || (isSecure ? '443' : '80');
      // `TLSSocket.resetAndDestroy` throws, so the TCP socket is opened separately from the TLS one.
      connect({ ...target, protocol: 'http:', port }, (...[error, socket]) => {
        if (error) return done(error, null);
        tcp = socket;
        if (isSecure) connect({ ...target, httpSocket: socket }, finish);
        else finish(null, socket);
      });
    },
    reset: () => void tcp?.resetAndDestroy(),
  };
}
