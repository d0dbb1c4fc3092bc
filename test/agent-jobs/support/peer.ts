import { readFileSync } from 'node:fs';
import * as net from 'node:net';
import * as tls from 'node:tls';

/** A certificate authority for tests only, and the certificates that it signed. They are valid for 100 years. */
export const tlsFile = (name: string) => readFileSync(new URL(`../tls/${name}`, import.meta.url), 'utf8');

interface ReceivedRequest {
  method: string;
  path: string;
  /** Names in lower case. */
  headers: Map<string, string>;
  body: string;
}

/** One connection to the peer. */
export interface PeerConnection {
  /** Plain or decrypted. */
  socket: net.Socket;
  /** The TCP socket under it. */
  raw: net.Socket;
}

export interface PeerScript {
  secure?: boolean;
  /** Name of the certificate, for a secure peer. */
  certificate?: 'server' | 'other-host' | 'expired';
  /** Called at accept. With `false`, the peer neither reads nor secures the connection. */
  onAccept?: (raw: net.Socket) => boolean;
  /** Called for each complete request. */
  onRequest?: (connection: PeerConnection, request: ReceivedRequest) => void;
  /** Called for each piece of a request. */
  onData?: (connection: PeerConnection, bytes: number) => void;
}

/** A server on raw sockets that counts everything that reaches it. */
export interface Peer {
  url: string;
  port: number;
  requests: ReceivedRequest[];
  connections: number;
  /** Bytes of requests (decrypted), over all connections. */
  bytes: number;
  /** Connections that have ended. */
  closed: number;
  close(): Promise<void>;
}

export async function startPeer(script: PeerScript = {}): Promise<Peer> {
  const sockets = new Set<net.Socket>();
  const server = net.createServer({ noDelay: true });
  server.on('connection', (raw) => {
    peer.connections++;
    sockets.add(raw);
    raw.on('error', () => undefined);
    raw.on('close', () => peer.closed++);
    if (script.onAccept?.(raw) === false) return;
    const socket = script.secure ? secure(raw, script.certificate ?? 'server') : raw;
    if (socket !== raw) socket.on('error', () => undefined);
    let buffer = Buffer.alloc(0);
    socket.on('data', (chunk: Buffer) => {
      peer.bytes += chunk.length;
      buffer = Buffer.concat([buffer, chunk]);
      script.onData?.({ socket, raw }, chunk.length);
      for (let parsed = parseRequest(buffer); parsed; parsed = parseRequest(buffer)) {
        buffer = buffer.subarray(parsed.length);
        peer.requests.push(parsed.request);
        script.onRequest?.({ socket, raw }, parsed.request);
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as net.AddressInfo;
  const peer: Peer = {
    ...{ url: script.secure ? `https://localhost:${port}` : `http://127.0.0.1:${port}`, port },
    ...{ requests: [], connections: 0, bytes: 0, closed: 0 },
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return peer;
}

/** The bytes of an answer, with a content-length. */
export function respond(status: number, body: unknown = {}, headers: Record<string, string> = {}): string {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const length = String(Buffer.byteLength(text));
  const lines = Object.entries({ 'content-type': 'application/json', 'content-length': length, ...headers });
  return `HTTP/1.1 ${status} Whatever\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${text}`;
}

/** Resets a connection, plain or TLS. */
export function reset({ raw }: PeerConnection): void {
  raw.resetAndDestroy();
}

function secure(raw: net.Socket, certificate: string): tls.TLSSocket {
  const [key, cert] = [tlsFile(`${certificate}.key`), tlsFile(`${certificate}.pem`)];
  const secureContext = tls.createSecureContext({ key, cert });
  return new tls.TLSSocket(raw, { isServer: true, secureContext, ALPNProtocols: ['http/1.1'] });
}

function parseRequest(buffer: Buffer): { request: ReceivedRequest; length: number } | undefined {
  const headEnd = buffer.indexOf('\r\n\r\n');
  if (headEnd < 0) return undefined;
  const [requestLine = '', ...lines] = buffer.subarray(0, headEnd).toString('latin1').split('\r\n');
  const headers = new Map(
    lines.map((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
    }),
  );
  const length = headEnd + 4 + Number(headers.get('content-length') ?? 0);
  if (buffer.length < length) return undefined;
  const [method = '', path = ''] = requestLine.split(' ');
  return { request: { method, path, headers, body: buffer.subarray(headEnd + 4, length).toString('utf8') }, length };
}
