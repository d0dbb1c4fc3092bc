import { expect, test } from 'vitest';
import { createAgentJobsClient } from '../../src/agent-jobs/index.js';
import type { SendOutcome } from '../../src/contract/index.js';
import { createRandom, type Random } from '../../src/simulator/random.js';
import { type Cut, startCuttingRelay } from './support/cutting-relay.js';
import { ADDRESS, API_KEY, JOB } from './support/harness.js';
import { type Peer, type PeerConnection, type PeerScript, reset, respond, startPeer, tlsFile } from './support/peer.js';

/** `FAULTS=20000 FAULTS_FROM=1 npx vitest run test/agent-jobs/random-faults.long.test.ts` is the long form. */
const COUNT = Number(process.env['FAULTS'] ?? 2_000);
const FROM = Number(process.env['FAULTS_FROM'] ?? 1);
const AT_ONCE = 32;
/** A deadline that only a stall reaches, even on a busy machine. */
const LONG_MS = 60_000;
const CA = tlsFile('ca.pem');

const endings: Record<string, (connection: PeerConnection) => void> = {
  ends: ({ socket }) => socket.end(),
  destroys: ({ socket }) => socket.destroy(),
  resets: reset,
  'stays silent': () => undefined,
  'stops reading': ({ socket, raw }) => void [socket, raw].map((each) => each.pause()),
};
const meanings: Partial<Record<SendOutcome, number[]>> = {
  sent: [200, 204, 299],
  rejected: [400, 422, 499],
  notFound: [404],
  credentials: [401, 403],
  payment: [402],
  limited: [429],
  unknown: [307, 408, 409, 425, 500, 503],
};
const answers = Object.entries(meanings).flatMap(([meaning, codes]) =>
  codes.map((status) => [status, meaning as SendOutcome] as const),
);

interface Fault {
  name: string;
  script: PeerScript;
  /** Between the client and the peer. */
  cut?: Cut;
  /** What the answer means that the peer writes, or starts to write. */
  answered?: SendOutcome;
  /** Whether the answer arrives whole. Then only its meaning is true. */
  isWhole?: boolean;
}

/** Draws a fault. `requestBytes` is the approximate length of the request. */
function drawFault(random: Random, secure: boolean, requestBytes: number): Fault {
  const pick = <T>(items: readonly T[]): T => items[random.between(0, items.length - 1)]!;
  const [status, ofStatus] = pick(answers);
  const body = status === 204 ? '' : pick([JOB, '', '<html>', { error: 'no' }]);
  const text = respond(status, body);
  // A 2xx with a body that is no job proves nothing, unless the body is lost.
  const answered: SendOutcome = ofStatus === 'sent' && body !== JOB && body !== '' ? 'unknown' : ofStatus;
  const writes: PeerScript['onRequest'] = ({ socket }) => socket.end(text);
  switch (pick(['cut', 'cut', 'cut', 'breaks off', 'breaks off', 'answers', 'answers early', 'answers at accept'])) {
    case 'cut': {
      const direction = pick(['request', 'answer'] as const);
      // Over TLS, the handshake too.
      const most = direction === 'request' ? requestBytes + (secure ? 900 : 50) : secure ? 2_500 : 300;
      const cut: Cut = {
        direction,
        afterBytes: random.between(0, most),
        how: pick(['reset', 'end', 'stall'] as const),
      };
      return { name: JSON.stringify(cut), script: { onRequest: writes }, cut, answered };
    }
    case 'breaks off': {
      const [name, act] = pick(Object.entries(endings));
      const afterBytes = random.between(1, requestBytes);
      let bytes = 0;
      const onData: PeerScript['onData'] = (connection, more) => {
        if ((bytes += more) >= afterBytes) act(connection);
      };
      return { name: `${name} after ${afterBytes} bytes of the request`, script: { onData } };
    }
    case 'answers': {
      const interim = pick(['', 'HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n']);
      const onRequest: PeerScript['onRequest'] = ({ socket }) => socket.write(interim + text);
      return { name: `answers ${status}`, script: { onRequest }, answered, isWhole: true };
    }
    case 'answers early': {
      const onData: PeerScript['onData'] = ({ socket }) => {
        if (!socket.writableEnded) socket.end(text);
      };
      return { name: `answers ${status} at the first bytes`, script: { onData }, answered };
    }
    default:
      return {
        name: 'answers at accept',
        script: { onAccept: (raw) => raw.write(respond(200, JOB)) },
        answered: 'sent',
      };
  }
}

/** Sends one message into one fault. Returns every promise that was broken. An even seed uses plain TCP, an odd one TLS. */
async function breaches(seed: number, certain: Map<SendOutcome, number>): Promise<string[]> {
  const random = createRandom(seed).fork('fault');
  const secure = seed % 2 === 1;
  const prompt = 'x'.repeat(Math.max(1, Math.floor(10 ** (random.next() * 5.4))));
  const fault = drawFault(random, secure, prompt.length + 250);
  const checkPasses = random.next() >= 0.05;
  const peer = await startPeer({ ...fault.script, secure });
  const relay = fault.cut && (await startCuttingRelay(peer.port, fault.cut));
  const client = createAgentJobsClient({
    baseUrl: `${secure ? 'https://localhost' : 'http://127.0.0.1'}:${relay?.port ?? peer.port}`,
    keys: { forProject: () => Promise.resolve(API_KEY) },
    getTimeoutMs: LONG_MS,
    sendTimeoutMs: fault.isWhole ? LONG_MS : random.between(30, 150),
    ca: CA,
  });
  const broken: string[] = [];
  const promise = (kept: boolean, words: string) => {
    if (!kept) broken.push(`seed ${seed} (${secure ? 'TLS' : 'plain'}, ${fault.name}): ${words}`);
  };
  try {
    let checks = 0;
    const mayStart = () => ++checks > 0 && checkPasses;
    const result = await client.sendMessage({ ...ADDRESS, prompt, mayStart });
    const { outcome } = result;
    // Written bytes may still be on their way. A peer that reads has seen them once the connection is gone.
    if (outcome === 'notSent') await goneOrQuiet(peer);
    promise(peer.connections <= 1 && checks <= 1, `${peer.connections} connections, ${checks} last checks`);
    promise(peer.requests.length <= 1, `${peer.requests.length} requests`);
    if (outcome === 'notSent') promise(peer.bytes === 0, `notSent, and the peer read ${peer.bytes} bytes`);
    if (outcome === 'notSent' && !secure && relay) promise(relay.clientBytes === 0, 'notSent, and bytes were written');
    promise(['notSent', 'unknown', fault.answered].includes(outcome), `${outcome}, and no answer said so`);
    const only = checkPasses ? (fault.isWhole ? fault.answered : undefined) : 'notSent';
    if (only) {
      promise(outcome === only, `${outcome}, and only ${only} is true`);
      certain.set(only, (certain.get(only) ?? 0) + 1);
    }
    if (peer.requests[0]) promise(peer.requests[0].body.length === prompt.length + 13, 'another body');
    promise(!JSON.stringify(result).includes(API_KEY), 'the key is in the outcome');
  } finally {
    await client.close();
    await relay?.close();
    await peer.close();
  }
  return broken;
}

async function goneOrQuiet(peer: Peer): Promise<void> {
  for (let looks = 0; looks < 20 && peer.closed < peer.connections; looks++) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

test(`of ${COUNT} messages into random faults, none that arrived counts as not sent, and none is sent twice`, async () => {
  const certain = new Map<SendOutcome, number>();
  const seeds = Array.from({ length: COUNT }, (_, index) => FROM + index);
  const broken: string[] = [];
  const one = async (): Promise<void> => {
    for (let seed = seeds.shift(); seed !== undefined; seed = seeds.shift()) {
      broken.push(...(await breaches(seed, certain)));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
  expect(broken).toEqual([]);
  for (const outcome of ['notSent', ...answers.map(([, meaning]) => meaning)] as const) {
    expect(certain.get(outcome) ?? 0, outcome).toBeGreaterThanOrEqual(COUNT / 1_000);
  }
}, 480_000);
