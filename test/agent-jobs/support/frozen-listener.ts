import { spawn } from 'node:child_process';
import { once } from 'node:events';
import * as net from 'node:net';

/** A stopped process that listens, with a full queue of connections. */
export interface FrozenListener {
  port: number;
  stop(): Promise<void>;
}

const LISTEN = `
const server = require('node:net').createServer();
server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => console.log(server.address().port));
`;

/** The queue is full when the kernel leaves a connection unanswered for this time. */
const UNANSWERED_MS = 250;

/** Starts a listener that neither accepts nor refuses connections. */
export async function startFrozenListener(): Promise<FrozenListener> {
  const child = spawn(process.execPath, ['-e', LISTEN], { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const port = Number(line.toString());
  child.kill('SIGSTOP');
  const held: net.Socket[] = [];
  for (let isFull = false; !isFull;) {
    const socket = net.connect({ port, host: '127.0.0.1' });
    socket.on('error', () => undefined);
    held.push(socket);
    isFull = await new Promise((resolve) => {
      socket.once('connect', () => resolve(false));
      setTimeout(() => resolve(true), UNANSWERED_MS);
    });
  }
  return {
    port,
    async stop() {
      for (const socket of held) socket.destroy();
      child.kill('SIGKILL');
      await exited;
    },
  };
}
