import * as net from 'node:net';

/** An answer, byte for byte. */
export interface HostileAnswer {
  /** The name for error messages. */
  name: string;
  status: number;
  headers: readonly (readonly [name: string, value: string])[];
  body: Buffer;
  /**
   * How it is sent. `whole`: completely. `silent`: not at all. `reset`: not at all, and the connection is reset.
   * `half`: it breaks off in the body. `drip`: one byte at a time, without end. `flood`: 50 MB follow the body.
   */
  manner: 'whole' | 'silent' | 'reset' | 'half' | 'drip' | 'flood';
}

/** What the service does with one job. */
export interface HostileScript {
  /** Answers to reads before the first message, in order; then `before`. */
  baseline: readonly HostileAnswer[];
  /** Answers to messages, in order; then 200. */
  posts: readonly HostileAnswer[];
  /** Answers to reads after the first message, in order; then `after`. */
  polls: readonly HostileAnswer[];
  before: HostileAnswer;
  /** The last one is repeated. */
  after: readonly HostileAnswer[];
  /** Whether the lists repeat for ever. */
  isEndless?: boolean;
}

/** A service that answers as each job's script says, over plain HTTP. */
export interface HostileService {
  baseUrl: string;
  setJob(jobId: string, script: HostileScript): void;
  /** The answers to the messages to a job, in their order. */
  postsTo(jobId: string): readonly HostileAnswer[];
  /** The number of all requests. */
  requests: number;
  close(): Promise<void>;
}

const FLOOD_BYTES = 50 * 1_048_576;
const FLOOD_CHUNK = Buffer.alloc(65_536, 'x');
const DRIP_MS = 40;

/** Starts a hostile service. */
export async function startHostileService(): Promise<HostileService> {
  const jobs = new Map<string, { script: HostileScript; gets: number; polls: number; posts: HostileAnswer[] }>();
  const sockets = new Set<net.Socket>();
  const server = net.createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
    let buffer = Buffer.alloc(0);
    socket.on('data', (chunk: Buffer) => {
      buffer = Buffer.concat([buffer, chunk]);
      for (let length = requestLength(buffer); length !== undefined; length = requestLength(buffer)) {
        const head = buffer.subarray(0, buffer.indexOf('\r\n')).toString('latin1');
        buffer = buffer.subarray(length);
        service.requests += 1;
        write(socket, next(head));
      }
    });
  });

  function next(head: string): HostileAnswer {
    const [, method, jobId] = /^(GET|POST) \/v2\/agent\/[^/]+\/job\/([^/ ]+)/.exec(head) ?? [];
    const job = jobs.get(jobId ?? '');
    if (!job) return { name: 'no such job', status: 404, headers: [], body: Buffer.from('{}'), manner: 'whole' };
    const { script } = job;
    const at = (list: readonly HostileAnswer[], index: number) =>
      list[script.isEndless && list.length > 0 ? index % list.length : index];
    if (method === 'POST') {
      const answer = at(script.posts, job.posts.length) ?? SENT;
      job.posts.push(answer);
      return answer;
    }
    if (job.posts.length === 0) return at(script.baseline, job.gets++) ?? script.before;
    const poll = job.polls++;
    return at(script.polls, poll) ?? script.after[poll - script.polls.length] ?? script.after.at(-1) ?? script.before;
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the service has no port');
  const service: HostileService = {
    baseUrl: `http://127.0.0.1:${address.port}`,
    setJob: (jobId, script) => void jobs.set(jobId, { script, gets: 0, polls: 0, posts: [] }),
    postsTo: (jobId) => jobs.get(jobId)?.posts ?? [],
    requests: 0,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return service;
}

const SENT: HostileAnswer = {
  name: 'sent',
  status: 200,
  headers: [['content-type', 'application/json']],
  body: Buffer.from('{"id":"j","prLink":null}'),
  manner: 'whole',
};

function write(socket: net.Socket, { status, headers, body, manner }: HostileAnswer): void {
  if (manner === 'silent') return;
  if (manner === 'reset') {
    socket.resetAndDestroy();
    return;
  }
  const length = { whole: body.length, half: body.length + 10, drip: 1_000_000, flood: FLOOD_BYTES }[manner];
  const framing = headers.some(([name]) => /^(content-length|transfer-encoding)$/i.test(name))
    ? []
    : [['content-length', String(length)] as const];
  const lines = [...framing, ...headers].map(([name, value]) => `${name}: ${value}\r\n`).join('');
  socket.write(`HTTP/1.1 ${status} Hostile\r\n${lines}\r\n`, 'latin1');
  socket.write(body);
  if (manner === 'half') socket.end();
  if (manner === 'drip') {
    const drip = setInterval(() => socket.write(' '), DRIP_MS);
    socket.once('close', () => clearInterval(drip));
  }
  if (manner === 'flood') flood(socket, FLOOD_BYTES - body.length);
}

function flood(socket: net.Socket, bytes: number): void {
  let left = bytes;
  const more = (): void => {
    while (left > 0 && !socket.destroyed) {
      left -= FLOOD_CHUNK.length;
      if (!socket.write(FLOOD_CHUNK)) {
        socket.once('drain', more);
        return;
      }
    }
  };
  more();
}

function requestLength(buffer: Buffer): number | undefined {
  const headEnd = buffer.indexOf('\r\n\r\n');
  if (headEnd < 0) return undefined;
  const bodyLength = /\r\ncontent-length: *(\d+)/i.exec(buffer.subarray(0, headEnd).toString('latin1'))?.[1] ?? '0';
  const length = headEnd + 4 + Number(bodyLength);
  return buffer.length < length ? undefined : length;
}
