import type * as net from 'node:net';
import type { SendOutcome } from '../../../src/contract/budget.js';
import type { Random } from '../../../src/simulator/random.js';
import type { Cut } from './cutting-relay.js';
import { JOB } from './harness.js';
import { answer, reset, type PeerConnection, type PeerScript } from './peer.js';

/** One way in which a service, or the network before it, can misbehave. */
export interface RandomFault {
  name: string;
  /** Where the client connects: to the peer, or to an address without one. */
  target: 'peer' | 'closed-port' | 'unknown-host' | 'frozen-listener';
  script: PeerScript;
  /** Between the client and the peer. */
  cut?: Cut;
  /** Whether the client trusts the authority of the tests. */
  trusts: boolean;
  /** Whether the exchange ends before a request can start. Then only `notSent` is true. */
  isBeforeStart: boolean;
  /** The status of the answer that the peer writes, or starts to write. */
  status?: number;
  /** Whether the answer arrives whole. Then only the outcome of its status is true. */
  isWholeAnswer: boolean;
}

/** What an answer means, by its status: the table of docs/explanation/architecture.md, "Sending". */
export function meaningOf(status: number): SendOutcome {
  if (status >= 200 && status <= 299) return 'sent';
  if ([401, 403].includes(status)) return 'unauthorized';
  if (status === 402) return 'payment';
  if (status === 429) return 'limited';
  return status >= 400 && status <= 499 && ![408, 409, 425].includes(status) ? 'rejected' : 'unknown';
}

type Ending = (connection: PeerConnection) => void;
type Named<T> = readonly [name: string, value: T];

/** Ends without an answer. */
const endings: readonly Named<Ending>[] = [
  ['ends', ({ socket }) => socket.end()],
  ['destroys', ({ socket }) => socket.destroy()],
  ['resets', reset],
  ['stays silent', () => undefined],
  [
    'stops reading',
    ({ socket, raw }) => {
      raw.pause();
      socket.pause();
    },
  ],
];

const repeat = (every: number, text: string) => (socket: net.Socket) => {
  const drip = setInterval(() => socket.write(text), every);
  socket.once('close', () => clearInterval(drip));
};

const long = { 'content-length': '50' };
const chunkedHead = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n';
const withLengths = (lengths: string) => `HTTP/1.1 200 OK\r\n${lengths}\r\n\r\n`;
type Broken = { status?: number; write: Ending };
const ends = (bytes: string, status?: number): Broken => ({
  ...(status !== undefined && { status }),
  write: ({ socket }) => socket.end(bytes),
});
const keeps = (bytes: string, drip = '', status?: number): Broken => ({
  ...(status !== undefined && { status }),
  write: ({ socket }) => {
    socket.write(bytes);
    if (drip !== '') repeat(10, drip)(socket);
  },
});
const resets = (bytes: string, status: number, act = (connection: PeerConnection) => reset(connection)): Broken => ({
  status,
  write: (connection) => connection.socket.write(bytes, () => act(connection)),
});

/** Invalid answers, and answers that break off. `status` is that of the final status line, if there is one. */
const brokenAnswers: readonly Named<Broken>[] = [
  ['half a status line', ends('HTTP/1.1 20')],
  ['half the headers', ends('HTTP/1.1 200 OK\r\nconte')],
  ['headers without an end', keeps('HTTP/1.1 200 OK\r\na: b\r\n')],
  ['garbage', ends('\u0000\u0001 garbage\r\n\r\n\u00ff')],
  ['another protocol', ends('SSH-2.0-OpenSSH_9.6\r\n')],
  ['a header without a name', ends('HTTP/1.1 200 OK\r\n: x\r\n\r\n')],
  ['headers of 70 KB', ends(answer(200, JOB, { 'x-long': 'x'.repeat(70_000) }))],
  ['100 and the end', ends('HTTP/1.1 100 Continue\r\n\r\n')],
  ['103 and silence', keeps('HTTP/1.1 103 Early Hints\r\n\r\n')],
  ['101', ends('HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n')],
  ['headers in drips', keeps('HTTP/1.1 200 OK\r\nx: ', 'x')],
  ['half a body and the end', ends(answer(200, '{', long), 200)],
  ['half a body and silence', keeps(answer(200, '{', long), '', 200)],
  ['half a body and a reset', resets(answer(200, '{', long), 200, (each) => setImmediate(() => reset(each)))],
  ['a body in drips', keeps(answer(200, '{', long), ' ', 200)],
  ['a chunk that breaks off', ends(`${chunkedHead}20\r\n{"id":`, 200)],
  ['no last chunk', ends(`${chunkedHead}2\r\n{}\r\n`, 200)],
  ['a chunk of a nonsensical size', ends(`${chunkedHead}zz\r\n{}\r\n`, 200)],
  ['two lengths that differ', ends(`${withLengths('content-length: 2\r\ncontent-length: 9')}{}`, 200)],
  [
    'a length and chunks',
    ends(`${withLengths('content-length: 2\r\ntransfer-encoding: chunked')}2\r\n{}\r\n0\r\n\r\n`, 200),
  ],
  ['a negative length', ends(answer(200, '{}', { 'content-length': '-2' }), 200)],
  ['more than its length', ends(answer(200, '{}xxxxx', { 'content-length': '2' }), 200)],
  ['two answers', ends(answer(200, JOB) + answer(500, {}), 200)],
  ['an answer and a reset', resets(answer(200, JOB), 200)],
  ['a refusal and a reset', resets(answer(400, JOB), 400)],
  ['a body too long to be read', ends(answer(200, { id: 'x'.repeat(200_000) }), 200)],
];

const statuses = [
  200, 200, 200, 201, 202, 204, 226, 299, 300, 301, 302, 303, 304, 307, 308, 400, 401, 402, 403, 404, 405, 408, 409,
  410, 413, 415, 418, 422, 425, 429, 431, 451, 499, 500, 501, 502, 503, 504, 511, 520, 599,
];

/** Faults before a request over TLS can start. */
const brokenHandshakes: readonly Named<PeerScript>[] = [
  ['resets at accept', { onAccept: (raw) => (raw.resetAndDestroy(), false) }],
  ['ends at accept', { onAccept: (raw) => (raw.end(), false) }],
  ['never begins', { onAccept: () => false }],
  ['never reads', { onAccept: (raw) => (raw.pause(), false) }],
  ['resets at the hello', { onAccept: atHello((raw) => raw.resetAndDestroy()) }],
  ['ends at the hello', { onAccept: atHello((raw) => raw.end()) }],
  ['answers in plain HTTP', { onAccept: atHello((raw) => raw.end(answer(400, {}))) }],
  ['alerts', { onAccept: atHello((raw) => raw.end(Buffer.from([21, 3, 3, 0, 2, 2, 40]))) }],
  ['breaks its hello off', { onAccept: atHello((raw) => raw.end(Buffer.from([22, 3, 3, 0, 90, 2, 0]))) }],
  ['stalls in its hello', { onAccept: atHello((raw) => raw.write(Buffer.from([22, 3, 3, 0, 90, 2, 0]))) }],
  ['says nonsense', { onAccept: atHello((raw) => raw.write(Buffer.alloc(300, 0x5a))) }],
  ['has another host’s certificate', { certificate: 'other-host' }],
  ['has an expired certificate', { certificate: 'expired' }],
];

function atHello(act: (raw: net.Socket) => void): (raw: net.Socket) => boolean {
  return (raw) => {
    raw.once('data', () => act(raw));
    return false;
  };
}

/** Draws a fault. `requestBytes` is the approximate length of the request. */
export function drawFault(random: Random, secure: boolean, requestBytes: number): RandomFault {
  const fault = (name: string, more: Partial<RandomFault>): RandomFault => ({
    name,
    target: 'peer',
    script: {},
    trusts: true,
    isBeforeStart: false,
    isWholeAnswer: false,
    ...more,
  });
  const pick = <T>(items: readonly [T, ...T[]] | readonly T[]): T => {
    const item = items[random.between(0, items.length - 1)];
    if (item === undefined) throw new Error('nothing to pick from');
    return item;
  };
  switch (pick(secure ? [...KINDS, ...KINDS_BEFORE_START] : KINDS)) {
    case 'nobody there': {
      const target = pick(['closed-port', 'closed-port', 'closed-port', 'frozen-listener', 'unknown-host'] as const);
      return fault(target, { target, isBeforeStart: true });
    }
    case 'no request read': {
      // Over TLS, the handshake never ends.
      const [name, act] = pick<Named<(raw: net.Socket) => unknown>>([
        ['resets at accept', (raw) => raw.resetAndDestroy()],
        ['ends at accept', (raw) => raw.end()],
        ['never reads', (raw) => raw.pause()],
      ]);
      return fault(name, { script: { onAccept: (raw) => (act(raw), false) }, isBeforeStart: secure });
    }
    case 'breaks off in the request': {
      const [name, act] = pick(endings);
      const afterBytes = random.between(1, requestBytes);
      let bytes = 0;
      const onData: PeerScript['onData'] = (connection, more) => {
        bytes += more;
        if (bytes >= afterBytes) act(connection);
      };
      return fault(`${name} after ${afterBytes} bytes of the request`, { script: { onData } });
    }
    case 'breaks off after the request': {
      const [name, act] = pick(endings);
      return fault(`${name} after the request`, { script: { onRequest: act } });
    }
    case 'broken answer': {
      const [name, { status, write }] = pick(brokenAnswers);
      return fault(`answers with ${name}`, { script: { onRequest: write }, ...(status !== undefined && { status }) });
    }
    case 'whole answer': {
      const status = pick(statuses);
      const body = [204, 304].includes(status) ? '' : pick([JOB, {}, '', '<html>', '{', 'null', '[]', { error: 'no' }]);
      const early = random.next() < 0.2 ? 'HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n' : '';
      const close: Record<string, string> = random.next() < 0.5 ? { connection: 'close' } : {};
      const text = early + answer(status, body, close);
      const end = random.next() < 0.5;
      const onRequest: Ending = ({ socket }) => (end ? socket.end(text) : socket.write(text));
      return fault(`answers ${status}`, { script: { onRequest }, status, isWholeAnswer: true });
    }
    case 'answer before the end of the request': {
      const status = pick(statuses);
      const onData: Ending = ({ socket }) => {
        if (!socket.writableEnded) socket.end(answer(status, JOB));
      };
      return fault(`answers ${status} at the first bytes`, { script: { onData }, status });
    }
    case 'answer before the request': {
      const script: PeerScript = { onAccept: (raw) => (raw.write(answer(200, JOB)), true) };
      return fault('answers at accept', { script, status: 200 });
    }
    case 'cut': {
      const direction = pick(['request', 'answer'] as const);
      const most = direction === 'request' ? requestBytes + (secure ? 900 : 50) : secure ? 2_500 : 300;
      const cut: Cut = {
        direction,
        afterBytes: random.between(0, most),
        how: pick(['reset', 'end', 'stall'] as const),
      };
      const onRequest: Ending = ({ socket }) => socket.end(answer(200, JOB));
      return fault(`${cut.how} after ${cut.afterBytes} bytes of the ${direction}`, {
        script: { onRequest },
        cut,
        status: 200,
      });
    }
    case 'broken handshake': {
      const [name, script] = pick(brokenHandshakes);
      return fault(name, { script, isBeforeStart: true });
    }
    case 'untrusted certificate':
      return fault('certificate of an unknown authority', { trusts: false, isBeforeStart: true });
  }
}

const KINDS = [
  'nobody there',
  'no request read',
  'breaks off in the request',
  'breaks off in the request',
  'breaks off after the request',
  'broken answer',
  'broken answer',
  'whole answer',
  'whole answer',
  'answer before the end of the request',
  'answer before the request',
  'cut',
  'cut',
  'cut',
] as const;
const KINDS_BEFORE_START = ['broken handshake', 'broken handshake', 'untrusted certificate'] as const;
