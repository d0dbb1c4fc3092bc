import { describe, expect, test } from 'vitest';
import type { PlannedFault } from '../../src/simulator/index.js';
import { get, post, start } from './service.js';

/** What the client sees of a message, whether the job accepts it, and whether the limiter counts it. */
const effects: [string, Partial<PlannedFault>, { status?: number; accepted: boolean; counted: boolean }][] = [
  ['a reset', { how: 'reset' }, { accepted: false, counted: true }],
  ['a reset after the message', { how: 'reset', when: 'after' }, { accepted: true, counted: true }],
  ['a 500', { how: { status: 500 } }, { status: 500, accepted: false, counted: true }],
  ['a 503 after the message', { how: { status: 503 }, when: 'after' }, { status: 503, accepted: true, counted: true }],
  ['a 429', { how: { status: 429 } }, { status: 429, accepted: false, counted: false }],
  ['a 401', { how: { status: 401 } }, { status: 401, accepted: false, counted: false }],
  ['a slow body', { how: { dripMs: 40 }, when: 'after' }, { status: 200, accepted: true, counted: true }],
];

describe('a planned fault', () => {
  test.each(effects)('of %s strikes one message but not the next', async (_, fault, { status, accepted, counted }) => {
    const simulator = await start();
    simulator.failNext({ method: 'POST', jobId: 'job-1', ...fault } as PlannedFault);
    expect((await post(simulator, { jobId: 'job-2' })).status).toBe(200);
    const struck = post(simulator);
    if (status === undefined) await expect(struck).rejects.toThrow();
    else expect((await struck).status).toBe(status);
    expect(simulator.ledger[1]).toMatchObject({ accepted, status: status ?? 0 });
    expect(simulator.ledger[1]?.countedAtMs !== null).toBe(counted);
    expect(simulator.job('p1', 'job-1')?.messages ?? 0).toBe(accepted ? 1 : 0);
    expect((await post(simulator)).status).toBe(200);
  });

  test.each(effects)('of %s strikes one read but not the next', async (_, fault, { status }) => {
    const simulator = await start();
    simulator.failNext({ method: 'GET', ...fault } as PlannedFault);
    const struck = get(simulator);
    if (status === undefined) await expect(struck).rejects.toThrow();
    else expect((await struck).status).toBe(status);
    expect((await get(simulator)).json).toMatchObject({ id: 'job-1' });
  });

  test.each(['before', 'after'] as const)('of no answer %s the message leaves the client waiting', async (when) => {
    const simulator = await start();
    simulator.failNext({ method: 'POST', when, how: 'hang' });
    const struck = post(simulator).catch(String);
    await expect.poll(() => simulator.ledger).toMatchObject([{ accepted: when === 'after', status: 0 }]);
    await simulator.close();
    expect(await struck).toMatch(/other side closed|ECONNRESET|terminated/);
  });

  test('strikes as often as planned, in the order of the plans, until it is cleared', async () => {
    const simulator = await start();
    simulator.failNext({
      method: 'GET',
      how: { status: 503, error: 'busy', headers: { 'retry-after': '5' } },
      times: 2,
    });
    simulator.failNext({ method: 'GET', how: { status: 404 }, times: 9 });
    const [first, second, third] = [await get(simulator), await get(simulator), await get(simulator)];
    expect(first).toMatchObject({ status: 503, json: { error: 'busy' }, headers: { 'retry-after': '5' } });
    expect([second.status, third.status]).toEqual([503, 404]);
    simulator.clearFaults();
    expect((await get(simulator)).status).toBe(200);
  });
});
