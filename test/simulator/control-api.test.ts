import { describe, expect, test } from 'vitest';
import type { Simulator } from '../../src/simulator/index.js';
import { call, get, post, start, type Reply } from './service.js';

function control(
  simulator: Simulator,
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
  path: string,
  body?: unknown,
): Promise<Reply> {
  const headers: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' };
  return call(simulator, method, `/_simulator/${path}`, headers, body === undefined ? undefined : JSON.stringify(body));
}

describe('the control interface', () => {
  test('makes jobs, changes them, and shows them as they are', async () => {
    const simulator = await start({ autoCreate: false });
    await control(simulator, 'POST', 'jobs', [
      { projectId: 'p1', jobId: 'a', prLink: null, behaviour: { outcome: 'failed' } },
      { projectId: 'p1', jobId: 'b', status: 'active', behaviour: { neverEnds: true } },
    ]);
    await control(simulator, 'POST', 'jobs', { projectId: 'p2', jobId: 'c', status: 'archived' });
    await control(simulator, 'PATCH', 'jobs', { projectId: 'p1', jobId: 'b', status: 'completed', prLink: 'x' });
    expect((await get(simulator, 'b')).json).toMatchObject({ status: 'completed', prLink: 'x' });
    expect((await control(simulator, 'GET', 'jobs')).json).toMatchObject([
      { projectId: 'p1', id: 'a', status: 'completed', prLink: null, gets: 0 },
      { projectId: 'p1', id: 'b', status: 'completed', prLink: 'x', gets: 1 },
      { projectId: 'p2', id: 'c', status: 'archived', archivedAt: expect.any(String) as unknown },
    ]);
  });

  test('shows the ledger from an index, and the fullest rolling window', async () => {
    const simulator = await start();
    for (const jobId of ['a', 'b', 'c']) await post(simulator, { jobId });
    expect((await control(simulator, 'GET', 'ledger')).json).toEqual(simulator.ledger);
    expect((await control(simulator, 'GET', 'ledger?from=2')).json).toEqual(simulator.ledger.slice(2));
    const window = await control(simulator, 'GET', 'max-in-any-window?projectId=p1&windowMs=60000');
    expect(window.json).toEqual({ max: 3 });
    expect((await control(simulator, 'GET', 'stats')).json).toMatchObject({ posts: 3, accepted: 3, gets: 0 });
  });

  test('replaces each option as a whole, and never shows a key', async () => {
    const simulator = await start({ apiKeys: { p9: 'key-of-p9' } });
    await post(simulator);
    const patch = { apiKey: 'new-key', limiter: { kind: 'fixed', limit: 1 }, faults: { post: { http500: 1 } } };
    const { json, text } = await control(simulator, 'PATCH', 'options', patch);
    expect(json).toMatchObject({ limiter: { kind: 'fixed', limit: 1, windowMs: 3_600_000 }, faults: { get: {} } });
    expect(text).not.toMatch(/new-key|key-of-p9/);
    expect((await post(simulator, { key: 'simulated-admin-key' })).status).toBe(401);
    // The message from before the change uses up the new limit.
    expect((await post(simulator)).status).toBe(429);
  });

  test('plans faults and clears them', async () => {
    const simulator = await start();
    await control(simulator, 'POST', 'faults', { method: 'GET', kind: 'http404', times: 3 });
    expect((await get(simulator)).status).toBe(404);
    await control(simulator, 'DELETE', 'faults');
    expect((await get(simulator)).status).toBe(200);
  });

  test.each([
    ['PATCH', 'options', { seed: 3 }, 'simulator options: seed can only be set at the start'],
    [
      'PATCH',
      'options',
      { latency: { minMs: -1, maxMs: 1 }, typo: 1 },
      /latency\.minMs: .*given -1.*typo: unknown field/,
    ],
    ['POST', 'jobs', { projectId: '..', jobId: 'a' }, /0\.projectId: must be 1 to 128/],
    ['POST', 'faults', { method: 'PUT', kind: 'http404' }, /0\.method: /],
    ['PATCH', 'jobs', { projectId: 'p', jobId: 'none' }, 'job p/none does not exist; add it first'],
  ] as const)('answers 400 to a bad %s %s and changes nothing', async (method, path, body, message) => {
    const simulator = await start();
    const before = (await control(simulator, 'GET', 'options')).json;
    const { status, json } = await control(simulator, method, path, body);
    expect(status).toBe(400);
    expect(json['error']).toMatch(message);
    expect((await control(simulator, 'GET', 'options')).json).toEqual(before);
  });

  test('refuses a body that a form on any web page could send', async () => {
    const simulator = await start();
    const path = '/_simulator/options';
    const { status } = await call(simulator, 'PATCH', path, { 'content-type': 'text/plain' }, '{"down":true}');
    expect(status).toBe(400);
    expect((await get(simulator)).status).toBe(200);
  });

  test('is served while the service is down, but not if it is turned off', async () => {
    const simulator = await start({ down: true });
    expect((await control(simulator, 'GET', 'stats')).status).toBe(200);
    simulator.update({ down: false, controlApi: false });
    expect((await control(simulator, 'GET', 'stats')).status).toBe(404);
  });
});
