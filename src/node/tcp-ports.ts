import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/** A host as part of a URL: an IPv6 address in brackets. */
export function hostInUrl(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

/** The host of a URL by which a client on this machine reaches a server that listens on `host`. */
export function reachableHost(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return hostInUrl(host === '::' ? '::1' : host);
}

/** Whether this process can listen on a port. */
export function isPortFree(port: number, host = '127.0.0.1'): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

/**
 * A random free port of 127.0.0.1, which another process may take first. It is below the range from which Linux, macOS
 * and Windows take local ports of outgoing connections: a connection could otherwise take it while its server is down,
 * and a client that keeps dialling could even reach itself.
 */
export async function findFreePort(): Promise<number> {
  for (let tries = 0; tries < 1_000; tries++) {
    const port = randomInt(10_000, 32_000);
    if (await isPortFree(port)) return port;
  }
  throw new Error('no port of 127.0.0.1 from 10,000 to 32,000 can be listened on');
}
