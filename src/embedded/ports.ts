import { createServer } from 'node:net';

/** Whether a port can be listened on. */
export async function isPortFree(port: number, host: string): Promise<boolean> {
  return (await listenOnce(port, host)) !== undefined;
}

/**
 * Ports that are free now, all different. Somebody may still take one before it is used: whoever uses them tries again
 * with others.
 */
export async function findFreePorts(count: number, host: string): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) {
    const port = await listenOnce(0, host);
    if (port === undefined) throw new Error(`No port can be listened on at ${host}`);
    ports.add(port);
  }
  return [...ports];
}

function listenOnce(port: number, host: string): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(undefined));
    server.listen({ port, host, exclusive: true }, () => {
      const address = server.address();
      const bound = typeof address === 'object' && address !== null ? address.port : undefined;
      server.close(() => resolve(bound));
    });
  });
}
