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
  return {
    connect(target, done) {
      const message = 'the connection was lost, and the message is not sent over a second one';
      if (raw) done(new ConnectError('SECOND_CONNECTION', message), null);
      else raw = openSocket(target, options, done);
    },
    reset() {
      if (!raw || raw.destroyed) return;
      if (raw.connecting) raw.destroy();
      else raw.resetAndDestroy();
    },
  };
}

/** Opens a connection, with TLS for `https`, and calls `done` once with the result. Returns the TCP socket at once. */
function openSocket(
  target: buildConnector.Options,
  { connectTimeoutMs, ca, lookup }: SingleConnectionOptions,
  done: buildConnector.Callback,
): net.Socket {
  // `TLSSocket.resetAndDestroy` throws, so the TCP socket is opened separately from the TLS one.
  const tcp = net.connect({
    host: target.hostname,
    port: Number(target.port) || defaultPort(target.protocol),
    noDelay: true,
    ...defined({ lookup }),
  });
  let secured: tls.TLSSocket | undefined;
  let isDone = false;
  const timer = setTimeout(() => {
    fail(new ConnectError('CONNECT_TIMEOUT', `not connected within ${connectTimeoutMs} ms`));
  }, connectTimeoutMs);

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
    socket.once('close', () => fail(new ConnectError('CLOSED', 'the peer closed the connection before it was ready')));
  }

  watch(tcp);
  tcp.once('connect', () => {
    if (target.protocol !== 'https:') return succeed(tcp);
    const socket = secure(tcp, target, ca);
    secured = socket;
    watch(socket);
    socket.once('secureConnect', () => succeed(socket));
  });
  return tcp;
}

function secure(tcp: net.Socket, target: buildConnector.Options, ca: string | undefined): tls.TLSSocket {
  const name = target.servername ?? target.hostname;
  return tls.connect({
    socket: tcp,
    host: target.hostname,
    ALPNProtocols: ['http/1.1'],
    ...(net.isIP(name) === 0 && { servername: name }),
    ...defined({ ca }),
  });
}

function toConnectError(error: Error): ConnectError {
  return new ConnectError(codeOf(error) ?? 'UNKNOWN', error.message);
}

function defaultPort(protocol: string): number {
  return protocol === 'https:' ? 443 : 80;
}
