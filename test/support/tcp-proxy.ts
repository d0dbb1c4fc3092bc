import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** What happens to bytes on their way. Open connections stay open until they are cut. */
export type ProxyMode =
  | { kind: 'pass' }
  /** Nothing arrives in either direction, and nobody is told. New connections are accepted, and hang. */
  | { kind: 'blackhole' }
  /** What the client sends arrives. What the server answers is lost. */
  | { kind: 'lose-answers' }
  /** Everything arrives `ms` later. */
  | { kind: 'delay'; ms: number };

/** A TCP proxy that breaks what goes through it. */
export interface TcpProxy {
  /** `host:port` for clients. */
  readonly address: string;
  set(mode: ProxyMode): void;
  /** Resets every connection. It is needed after bytes were lost: later bytes would make no sense. */
  cut(): void;
  close(): Promise<void>;
}

/** @param target `host:port` */
export async function startTcpProxy(target: string): Promise<TcpProxy> {
  const [host = '127.0.0.1', port = '0'] = target.split(':');
  const sockets = new Set<Socket>();
  let mode: ProxyMode = { kind: 'pass' };

  const server = createServer((client) => {
    const upstream = connect(Number(port), host);
    join(client, upstream, false);
    join(upstream, client, true);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');

  function join(from: Socket, to: Socket, isAnswer: boolean): void {
    sockets.add(from);
    from.setNoDelay(true);
    from.on('data', (chunk) => {
      const isLost = mode.kind === 'blackhole' || (mode.kind === 'lose-answers' && isAnswer);
      if (isLost) return;
      if (mode.kind === 'delay') setTimeout(() => to.write(chunk), mode.ms);
      else to.write(chunk);
    });
    from.on('error', () => to.destroy());
    from.on('close', () => {
      sockets.delete(from);
      to.destroy();
    });
  }

  const cut = (): void => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    set: (next) => {
      mode = next;
    },
    cut,
    async close() {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
}
