import { expect, test } from 'vitest';
import { JOB, JOB_ID, PROJECT_ID, useClient, usePeer } from './support/harness.js';
import { answer, reset, type PeerConnection, type PeerScript } from './support/peer.js';

/** Numbers from 0 to 1 that depend on the seed alone (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

type Fault = (connection: PeerConnection) => void;

const endings: Fault[] = [
  ({ socket }) => socket.end(),
  ({ socket }) => socket.destroy(),
  reset,
  () => undefined,
  ({ socket }) => socket.end('HTTP/1.1 2'),
  ({ socket }) => socket.end('HTTP/1.1 100 Continue\r\n\r\n'),
  ({ socket }) => socket.end(answer(200, JOB)),
  ({ socket }) => socket.end(answer(200, '{', { 'content-length': '50' })),
  (connection) => connection.socket.write(answer(200, JOB), () => reset(connection)),
  ({ socket }) => socket.end(answer(502, {})),
  ({ socket }) => socket.end(answer(400, {})),
];

const pick = <T>(items: readonly T[], random: () => number): T | undefined =>
  items[Math.floor(random() * items.length)];

/** A peer that breaks at a random place of a connection. */
function randomScript(random: () => number): PeerScript {
  const place = random();
  const ending = pick(endings, random) ?? reset;
  if (place < 0.1) return { onAccept: (raw) => (raw.resetAndDestroy(), false) };
  if (place < 0.2) return { onAccept: (raw) => (raw.end(), false) };
  if (place < 0.3) return { onAccept: (raw) => (raw.once('data', () => raw.resetAndDestroy()), false) };
  if (place < 0.4) return { onAccept: () => false };
  if (place < 0.6) return { onData: ending };
  return { onRequest: ending };
}

test.for([1, 2, 3, 4])(
  '100 random faults of seed %i: nothing delivered is called not sent, nothing is sent twice',
  async (seed) => {
    const random = randomFrom(seed);
    const tally = new Map<string, number>();
    for (let round = 0; round < 100; round++) {
      const peer = await usePeer({ ...randomScript(random), secure: random() < 0.5 });
      const client = useClient(peer.url, { sendTimeoutMs: 20 + Math.floor(random() * 100) });
      const checkPasses = random() < 0.95;
      const prompt = 'x'.repeat(Math.floor(10 ** (random() * 5.3)));
      const { outcome } = await client.sendMessage({
        projectId: PROJECT_ID,
        jobId: JOB_ID,
        prompt,
        mayStart: () => checkPasses,
      });
      await client.close();
      await peer.close();
      tally.set(outcome, (tally.get(outcome) ?? 0) + 1);
      const where = `seed ${seed}, round ${round}, outcome ${outcome}`;
      expect(peer.connections, where).toBeLessThanOrEqual(1);
      expect(peer.requests.length, where).toBeLessThanOrEqual(1);
      if (outcome === 'notSent') expect(peer.bytes, where).toBe(0);
      if (!checkPasses) expect(outcome, where).toBe('notSent');
    }
    // The faults reach every class that matters.
    for (const outcome of ['notSent', 'unknown', 'sent']) expect(tally.get(outcome) ?? 0).toBeGreaterThan(3);
  },
);
