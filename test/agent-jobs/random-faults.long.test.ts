import { afterAll, beforeAll, expect, test } from 'vitest';
import { createAgentJobsClient } from '../../src/agent-jobs/index.js';
import { sendOutcomes, type SendOutcome } from '../../src/contract/budget.js';
import { createRandom } from '../../src/simulator/random.js';
import { eventually } from '../support/eventually.js';
import { startCuttingRelay } from './support/cutting-relay.js';
import { startFrozenListener, type FrozenListener } from './support/frozen-listener.js';
import { ADDRESS, API_KEY, get, JOB, send, useClient, usePeer } from './support/harness.js';
import { answer, startPeer, tlsFile, type Peer } from './support/peer.js';
import { drawFault, meaningOf, type RandomFault } from './support/random-fault.js';

/** Seeds that once failed. Each run tries them first. An even seed uses plain TCP, an odd one TLS. */
const KEPT_SEEDS: readonly number[] = [];

/** `FAULTS=20000 FAULTS_FROM=1 npx vitest run test/agent-jobs/random-faults.long.test.ts` is the long form. */
const COUNT = Number(process.env['FAULTS'] ?? 2_000);
const FROM = Number(process.env['FAULTS_FROM'] ?? 1);
const AT_ONCE = 32;

/** A deadline that only a stall reaches, even on a busy machine. */
const LONG_MS = 60_000;
/** No server listens here, and no system assigns it. A port that was just closed could become another peer's. */
const CLOSED_PORT = 1;

const CA = tlsFile('ca.pem');

let frozen: FrozenListener;
beforeAll(async () => {
  frozen = await startFrozenListener();
});
afterAll(() => frozen.stop());

/**
 * What the seeds drew. Only certain outcomes are counted. The others depend on the load of the machine, because a
 * deadline of 30 ms may pass at any step.
 */
interface Tally {
  certain: Map<SendOutcome, number>;
  faults: Set<string>;
  beforeStart: number;
}

/** Sends one message into one fault. Returns every promise that was broken. */
async function breaches(seed: number, tally: Tally): Promise<string[]> {
  const random = createRandom(seed).fork('fault');
  const secure = seed % 2 === 1;
  const prompt = 'x'.repeat(Math.max(1, Math.floor(10 ** (random.next() * 5.4))));
  const fault = drawFault(random, secure, prompt.length + 250);
  const checkPasses = random.next() >= 0.05;
  // A stall ends at the deadline. A whole answer has time to arrive.
  const sendTimeoutMs = fault.isWholeAnswer ? LONG_MS : random.between(30, 150);
  const peer = await startPeer({ ...fault.script, secure });
  const relay = fault.cut && (await startCuttingRelay(peer.port, fault.cut));
  const client = createAgentJobsClient({
    baseUrl: baseUrlOf(fault, secure, relay?.port ?? peer.port),
    keys: { forProject: () => Promise.resolve(API_KEY) },
    getTimeoutMs: sendTimeoutMs,
    sendTimeoutMs,
    ...(random.next() < 0.3 && !fault.isWholeAnswer && { connectTimeoutMs: random.between(20, 100) }),
    ...(fault.trusts && { ca: CA }),
  });
  const broken: string[] = [];
  const promise = (kept: boolean, words: string) => {
    if (!kept) broken.push(`seed ${seed} (${secure ? 'TLS' : 'plain'}, ${fault.name}): ${words}`);
  };
  try {
    let checks = 0;
    const result = await client.sendMessage({
      ...ADDRESS,
      prompt,
      mayStart: () => {
        checks += 1;
        return checkPasses;
      },
    });
    const { outcome } = result;
    // Written bytes may still be on their way. A peer that reads has seen them once the connection is gone.
    if (outcome === 'notSent') await goneOrQuiet(peer);
    promise(sendOutcomes.includes(outcome), `an unknown kind of outcome: ${outcome}`);
    promise(peer.connections <= 1 && checks <= 1, `${peer.connections} connections, ${checks} last checks`);
    promise(peer.requests.length <= 1, `${peer.requests.length} requests`);
    if (outcome === 'notSent') promise(peer.bytes === 0, `notSent, and the peer read ${peer.bytes} bytes`);
    if (outcome === 'notSent' && !secure && relay) promise(relay.clientBytes === 0, `notSent, and bytes were written`);
    const answered = fault.status === undefined ? undefined : meaningOf(fault.status);
    promise(['notSent', 'unknown', answered].includes(outcome), `${outcome}, and no answer said so`);
    const certain = fault.isBeforeStart || !checkPasses ? 'notSent' : fault.isWholeAnswer ? answered : undefined;
    if (certain) promise(outcome === certain, `${outcome}, and only ${certain} is true`);
    if (peer.requests.length === 1) promise(peer.requests[0]?.body.length === prompt.length + 13, 'another body');
    promise(!JSON.stringify(result).includes(API_KEY), 'the key is in the outcome');

    if (certain) tally.certain.set(certain, (tally.certain.get(certain) ?? 0) + 1);
    tally.faults.add(fault.name.replace(/\d+/g, 'N'));
    if (fault.isBeforeStart) tally.beforeStart += 1;
    if (seed % 8 < 2) {
      // A read through the same fault ends too, and makes no second request.
      await get(client);
      const gets = peer.requests.filter(({ method }) => method === 'GET').length;
      promise(gets <= 1, `${gets} requests of one get-job`);
    }
  } finally {
    await client.close();
    await relay?.close();
    await peer.close();
  }
  return broken;
}

function baseUrlOf({ target }: RandomFault, secure: boolean, port: number): string {
  const scheme = secure ? 'https' : 'http';
  if (target === 'unknown-host') return `${scheme}://no-such-host.invalid`;
  const to = target === 'closed-port' ? CLOSED_PORT : target === 'frozen-listener' ? frozen.port : port;
  // The certificate is for "localhost". Plain peers go by address: a lookup would wait behind one that fails.
  return `${scheme}://${secure && target === 'peer' ? 'localhost' : '127.0.0.1'}:${to}`;
}

async function goneOrQuiet(peer: Peer): Promise<void> {
  for (let looks = 0; looks < 20 && peer.closed < peer.connections; looks++) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

test(`of ${COUNT} messages into random faults, none that arrived counts as not sent, and none is sent twice`, async () => {
  const tally: Tally = { certain: new Map(), faults: new Set(), beforeStart: 0 };
  const seeds = [...KEPT_SEEDS, ...Array.from({ length: COUNT }, (_, index) => FROM + index)];
  const broken: string[] = [];
  const one = async (): Promise<void> => {
    for (let seed = seeds.shift(); seed !== undefined; seed = seeds.shift())
      broken.push(...(await breaches(seed, tally)));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
  expect(broken).toEqual([]);
  // The faults cover every outcome and most ways to fail.
  for (const outcome of sendOutcomes)
    expect(tally.certain.get(outcome) ?? 0, outcome).toBeGreaterThanOrEqual(COUNT / 1_000);
  expect(tally.faults.size).toBeGreaterThan(55);
  expect(tally.beforeStart).toBeGreaterThan(COUNT / 20);
}, 480_000);

for (const secure of [false, true]) {
  test(`with a peer that drops idle connections at any moment, no message fails and no read is sent twice, over ${secure ? 'TLS' : 'plain TCP'}`, async () => {
    const random = createRandom(secure ? 2 : 1);
    const peer = await usePeer({
      secure,
      onRequest: ({ socket }, { method }) => {
        socket.write(answer(200, JOB, { connection: 'keep-alive' }));
        const drop = () => (method === 'GET' ? socket.destroy() : socket.end());
        if (random.next() < 0.5) setTimeout(drop, random.between(0, 3));
        else setImmediate(drop);
      },
    });
    const client = useClient(peer.url);
    let lost = 0;
    const GETS = 400;
    for (let round = 1; round <= GETS; round++) {
      const before = peer.requests.length;
      const outcome = await get(client);
      if (outcome.kind !== 'job') {
        expect(outcome).toMatchObject({ kind: 'failed', reason: 'network' });
        lost += 1;
      }
      expect(peer.requests.length - before).toBeLessThanOrEqual(1);
      if (round % 4 === 0) expect((await send(client)).outcome).toBe('sent');
      if (random.next() < 0.5) await new Promise((resolve) => setTimeout(resolve, random.between(0, 3)));
    }
    await eventually(
      'every message',
      () => peer.requests.filter(({ method }) => method === 'POST').length === GETS / 4,
    );
    expect(lost).toBeLessThan(GETS);
  });
}
