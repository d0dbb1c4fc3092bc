import * as net from 'node:net';

/** Where a relay cuts a connection, and how. */
export interface Cut {
  /** The direction whose bytes are counted. */
  direction: 'request' | 'answer';
  afterBytes: number;
  how: 'reset' | 'end' | 'stall';
}

/** A relay for TCP connections that cuts them. */
export interface CuttingRelay {
  port: number;
  /** Bytes that clients have written, plain or encrypted. */
  clientBytes: number;
  close(): Promise<void>;
}

/** Starts a relay that forwards bytes to a port of this host, and cuts every connection. */
export async function startCuttingRelay(targetPort: number, cut: Cut): Promise<CuttingRelay> {
  const sockets = new Set<net.Socket>();
  const server = net.createServer({ noDelay: true, allowHalfOpen: true }, (client) => {
    const target = net.connect({ port: targetPort, host: '127.0.0.1', noDelay: true, allowHalfOpen: true });
    const pair = [client, target];
    for (const socket of pair) sockets.add(socket.on('error', () => undefined));
    client.on('data', (chunk: Buffer) => (relay.clientBytes += chunk.length));
    pass(client, target, cut.direction === 'request' ? cut.afterBytes : Infinity, () => strike(cut, pair));
    pass(target, client, cut.direction === 'answer' ? cut.afterBytes : Infinity, () => strike(cut, pair));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const relay: CuttingRelay = {
    port: (server.address() as net.AddressInfo).port,
    clientBytes: 0,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return relay;
}

function pass(from: net.Socket, to: net.Socket, mostBytes: number, onCut: () => void): void {
  let left = mostBytes;
  from.on('data', (chunk: Buffer) => {
    if (left < 0) return;
    const part = chunk.subarray(0, left);
    left -= part.length;
    if (part.length > 0) to.write(part);
    if (left > 0) return;
    left = -1;
    // The bytes that were forwarded leave first.
    setImmediate(onCut);
  });
  from.on('end', () => to.end());
  from.on('close', () => to.destroy());
}

function strike({ how }: Cut, pair: readonly net.Socket[]): void {
  for (const socket of pair) {
    if (how === 'reset') socket.resetAndDestroy();
    else if (how === 'end') socket.end();
    else socket.pause();
  }
}
