import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/** Whether a port can be listened on. */
export function isPortFree(port: number, host = '127.0.0.1'): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

/**
 * A random free port of 127.0.0.1. Another process may take it before it is used. It is below the range from which
 * Linux, macOS and Windows take the local ports of outgoing connections: while its server is down, a connection may take
 * a port in that range, and a client that keeps dialling it may even reach itself.
 */
export async function findFreePort(): Promise<number> {
  for (let tries = 0; tries < 1_000; tries++) {
    const port = randomInt(10_000, 32_000);
    if (await isPortFree(port)) return port;
  }
  throw new Error('no port of 127.0.0.1 from 10,000 to 32,000 can be listened on');
}
