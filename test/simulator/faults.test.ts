import { describe, expect, test } from 'vitest';
import type { PlannedFault } from '../../src/simulator/index.js';
import { get, post, start } from './service.js';

/** What the client sees of a message, whether the job accepts it, and whether the limiter counts it. */
const effects: [string, Partial<PlannedFault>, status: number, accepted: boolean, counted: boolean][] = [
  ['a reset', { how: 'reset' }, 0, false, true],
  ['a reset after the message', { how: 'reset', when: 'after' }, 0, true, true],
  ['a 500', { how: { status: 500 } }, 500, false, true],
  ['a 503 after the message', { how: { status: 503 }, when: 'after' }, 503, true, true],
  ['a 429', { how: { status: 429 } }, 429, false, false],
  ['a 401', { how: { status: 401 } }, 401, false, false],
  ['a slow body', { how: { dripMs: 40 }, when: 'after' }, 200, true, true],
];

describe('a planned fault', () => {
  test.each(effects)(
    'of %s strikes one message or read but not the next',
    async (...[, fault, status, accepted, counted]) => {
      const simulator = await start();
      simulator.failNext({ method: 'POST', jobId: 'job-1', ...fault } as PlannedFault);
      expect((await post(simulator, { jobId: 'job-2' })).status).toBe(200);
      expect(await statusOf(post(simulator))).toBe(status);
      expect(simulator.ledger[1]).toMatchObject({ accepted, status });
      expect(simulator.ledger[1]?.countedAtMs !== null).toBe(counted);
      expect(simulator.job('p1', 'job-1')?.messages ?? 0).toBe(accepted ? 1 : 0);
      expect((await post(simulator)).status).toBe(200);
      simulator.failNext({ method: 'GET', ...fault } as PlannedFault);
      expect(await statusOf(get(simulator))).toBe(status);
      expect((await get(simulator)).json).toMatchObject({ id: 'job-1' });
    },
  );

  test.each(['before', 'after'] as const)('of no response %s the message leaves the client waiting', async (when) => {
    const simulator = await start();
    simulator.failNext({ method: 'POST', when, how: 'hang' });
    const struck = post(simulator).catch(String);
    await expect.poll(() => simulator.ledger).toMatchObject([{ accepted: when === 'after', status: 0 }]);
    await simulator.close();
    expect(await struck).toMatch(/other side closed|ECONNRESET|terminated/);
  });

  test('strikes as often as planned, in the order of the plans, until it is cleared', async () => {
    const simulator = await start();
    const busy = { status: 503, error: 'busy', headers: { 'retry-after': '5' } };
    simulator.failNext({ method: 'GET', how: busy, times: 2 });
    simulator.failNext({ method: 'GET', how: { status: 404 }, times: 9 });
    const [first, second, third] = [await get(simulator), await get(simulator), await get(simulator)];
    expect(first).toMatchObject({ status: 503, json: { error: 'busy' }, headers: { 'retry-after': '5' } });
    expect([second.status, third.status]).toEqual([503, 404]);
    simulator.clearFaults();
    expect((await get(simulator)).status).toBe(200);
  });
});

/** 0 without an answer. */
const statusOf = (reply: Promise<{ status: number }>) => reply.then(({ status }) => status).catch(() => 0);
