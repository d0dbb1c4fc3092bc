import * as net from 'node:net';
import * as tls from 'node:tls';
import type { buildConnector } from 'undici';
import { codeOf, defined } from '../common/index.js';
import { skipInterim } from './response.js';

export interface SingleConnectionOptions {
  /** For connecting and the TLS handshake together. */
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

/** Why a connection failed. Holds only the code of the cause. */
class ConnectError extends Error {
  override name = 'ConnectError' as const;
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/**
 * Makes the connection for one request. Refuses a second connection, so that undici cannot send the request again.
 * Ignores `HTTP_PROXY` and similar variables.
 */
export function createSingleConnection(options: SingleConnectionOptions): SingleConnection {
  let raw: net.Socket | undefined;

  function connect(target: buildConnector.Options, done: buildConnector.Callback): void {
    if (raw) {
      done(
        new ConnectError('SECOND_CONNECTION', 'the connection was lost, and the message is not sent over a second one'),
        null,
      );
      return;
    }
    // `TLSSocket.resetAndDestroy` throws, so the TCP socket is opened separately from the TLS one.
    const tcp = net.connect({
      host: target.hostname,
      port: Number(target.port) || defaultPort(target.protocol),
      noDelay: true,
      ...defined({ lookup: options.lookup }),
    });
    raw = tcp;
    let secured: tls.TLSSocket | undefined;
    let isDone = false;
    const timer = setTimeout(() => {
      fail(new ConnectError('CONNECT_TIMEOUT', `not connected within ${options.connectTimeoutMs} ms`));
    }, options.connectTimeoutMs);

    function succeed(socket: net.Socket): void {
      if (isDone) return;
      isDone = true;
      clearTimeout(timer);
      done(null, skipInterim(socket));
    }

    function fail(error: Error): void {
      if (isDone) return;
      isDone = true;
      clearTimeout(timer);
      secured?.destroy();
      tcp.destroy();
      done(error, null);
    }

    function watch(socket: net.Socket): void {
      // Never removed: undici handles errors after the hand-over, but a listener must always exist.
      socket.on('error', (error) => fail(toConnectError(error)));
      socket.once('close', () =>
        fail(new ConnectError('CLOSED', 'the peer closed the connection before it was ready')),
      );
    }

    watch(tcp);
    tcp.once('connect', () => {
      if (target.protocol !== 'https:') {
        succeed(tcp);
        return;
      }
      const name = target.servername ?? target.hostname;
      secured = tls.connect({
        socket: tcp,
        host: target.hostname,
        ALPNProtocols: ['http/1.1'],
        ...(net.isIP(name) === 0 && { servername: name }),
        ...defined({ ca: options.ca }),
      });
      const socket = secured;
      watch(socket);
      socket.once('secureConnect', () => succeed(socket));
    });
  }

  return {
    connect,
    reset() {
      if (!raw || raw.destroyed) return;
      if (raw.connecting) raw.destroy();
      else raw.resetAndDestroy();
    },
  };
}

function toConnectError(error: Error): ConnectError {
  return new ConnectError(codeOf(error) ?? 'UNKNOWN', error.message);
}

function defaultPort(protocol: string): number {
  return protocol === 'https:' ? 443 : 80;
}
