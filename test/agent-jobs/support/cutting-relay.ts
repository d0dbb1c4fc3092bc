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
  const relay: CuttingRelay = {
    port: 0,
    clientBytes: 0,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  const server = net.createServer({ noDelay: true, allowHalfOpen: true }, (client) => {
    const target = net.connect({ port: targetPort, host: '127.0.0.1', noDelay: true, allowHalfOpen: true });
    for (const socket of [client, target]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
    }
    client.on('data', (chunk: Buffer) => (relay.clientBytes += chunk.length));
    pass(client, target, cut.direction === 'request' ? cut : undefined, { client, target });
    pass(target, client, cut.direction === 'answer' ? cut : undefined, { client, target });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the relay has no port');
  relay.port = address.port;
  return relay;
}

interface Pair {
  client: net.Socket;
  target: net.Socket;
}

function pass(from: net.Socket, to: net.Socket, cut: Cut | undefined, pair: Pair): void {
  let left = cut?.afterBytes ?? Infinity;
  const strike = (): void => {
    if (cut) carryOut(cut.how, pair);
  };
  from.on('data', (chunk: Buffer) => {
    if (left < 0) return;
    const part = chunk.length > left ? chunk.subarray(0, left) : chunk;
    left -= part.length;
    if (part.length > 0) to.write(part);
    if (left > 0) return;
    left = -1;
    // The bytes that were forwarded leave first.
    setImmediate(strike);
  });
  from.on('end', () => to.end());
  from.on('close', () => to.destroy());
}

function carryOut(how: Cut['how'], { client, target }: Pair): void {
  switch (how) {
    case 'reset':
      client.resetAndDestroy();
      target.resetAndDestroy();
      return;
    case 'end':
      client.end();
      target.end();
      return;
    case 'stall':
      client.pause();
      target.pause();
  }
}
