import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/** Whether a port can be listened on. */
export async function isPortFree(port: number, host: string): Promise<boolean> {
  return await listenOnce(port, host);
}

/**
 * Below the range that Linux, macOS and Windows take local ports of outgoing connections from. A port in that range may
 * be taken by any connection while its server is down, and a client that keeps dialling it may even reach itself.
 */
const LOWEST_PORT = 10_000;
const HIGHEST_PORT = 32_000;
const MAX_TRIES = 1_000;

/**
 * Random ports that are free now, all different, from 10,000 to 32,000. Somebody may still take one before it is used:
 * whoever uses them tries again with others.
 */
export async function findFreePorts(count: number, host: string): Promise<number[]> {
  const ports = new Set<number>();
  for (let tries = 0; ports.size < count; tries++) {
    if (tries > MAX_TRIES) throw new Error(`No ${count} ports can be listened on at ${host}`);
    const port = randomInt(LOWEST_PORT, HIGHEST_PORT);
    if (!ports.has(port) && (await isPortFree(port, host))) ports.add(port);
  }
  return [...ports];
}

function listenOnce(port: number, host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)));
  });
}
