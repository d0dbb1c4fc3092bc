import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Answer } from './answer.js';

const DRIPS = 20;
const CHUNK_BYTES = 65_536;
/** Time for the bytes written to leave before the reset, which would overtake them. */
const FLUSH_MS = 25;

/** Sends an answer in its manner. Rejects with an AbortError when `signal` aborts. */
export async function deliver(
  answer: Answer,
  response: ServerResponse,
  options: { slowBodyMs: number; hugeBodyBytes: number; signal: AbortSignal },
): Promise<void> {
  const { signal } = options;
  const socket = response.socket;
  switch (answer.manner) {
    case 'whole':
      response.writeHead(answer.status, answer.headers).end(answer.text);
      return;
    case 'hang':
      return;
    case 'reset':
      reset(socket);
      return;
    case 'reset-mid-body':
      response.writeHead(answer.status, { ...answer.headers, 'content-length': Buffer.byteLength(answer.text) });
      response.write(answer.text.slice(0, answer.text.length / 2));
      await sleep(FLUSH_MS, undefined, { signal });
      reset(socket);
      return;
    case 'drip':
      await drip(answer, response, options.slowBodyMs, signal);
      return;
    case 'huge':
      await sendHuge(answer, response, options.hugeBodyBytes);
  }
}

/** Ends a connection with RST. */
export function reset(socket: Socket | null): void {
  socket?.resetAndDestroy();
}

async function drip(answer: Answer, response: ServerResponse, totalMs: number, signal: AbortSignal): Promise<void> {
  const bytes = Buffer.from(answer.text);
  const size = Math.ceil(bytes.length / DRIPS);
  response.writeHead(answer.status, { ...answer.headers, 'content-length': bytes.length });
  response.flushHeaders();
  for (let start = 0; start < bytes.length && !response.destroyed; start += size) {
    await sleep(totalMs / DRIPS, undefined, { signal });
    response.write(bytes.subarray(start, start + size));
  }
  response.end();
}

/** The JSON object with one more field, which makes the body as large as asked. */
async function sendHuge(answer: Answer, response: ServerResponse, totalBytes: number): Promise<void> {
  const head = `${answer.text.slice(0, -1)},"padding":"`;
  const chunk = Buffer.alloc(CHUNK_BYTES, 'a');
  response.writeHead(answer.status, answer.headers);
  response.write(head);
  for (let left = totalBytes - head.length - 2; left > 0 && !response.destroyed; left -= CHUNK_BYTES) {
    const more = response.write(left < CHUNK_BYTES ? chunk.subarray(0, left) : chunk);
    if (!more) await drained(response);
  }
  response.end('"}');
}

/** Resolves when more can be written, or the connection is gone. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off('drain', done);
      response.off('close', done);
      resolve();
    };
    response.on('drain', done);
    response.on('close', done);
    if (response.destroyed) done();
  });
}
