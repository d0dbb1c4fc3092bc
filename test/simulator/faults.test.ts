import { describe, expect, test } from 'vitest';
import { HOSTILE_PR_LINK, UNKNOWN_STATUS, type FaultKind, type PlannedFault } from '../../src/simulator/index.js';
import { get, post, start } from './service.js';

const CONNECTION_ENDED = /other side closed|ECONNRESET|terminated/;

/** What the client sees, whether the job accepts the message, and whether the limiter counts it. */
const effects: [FaultKind, { status?: number; accepted: boolean; counted: boolean }][] = [
  ['http404', { status: 404, accepted: false, counted: true }],
  ['http500', { status: 500, accepted: false, counted: true }],
  ['http503', { status: 503, accepted: false, counted: true }],
  ['http503AfterApply', { status: 503, accepted: true, counted: true }],
  ['resetBefore', { accepted: false, counted: true }],
  ['resetAfter', { accepted: true, counted: true }],
  ['resetMidBody', { accepted: true, counted: true }],
  ['slowBody', { status: 200, accepted: true, counted: true }],
  ['limited', { status: 429, accepted: false, counted: false }],
  ['unauthorized', { status: 401, accepted: false, counted: false }],
  ['redirect', { status: 307, accepted: false, counted: true }],
  ['html200', { status: 200, accepted: true, counted: true }],
  ['invalidJson', { status: 200, accepted: true, counted: true }],
  ['hugeBody', { status: 200, accepted: true, counted: true }],
  ['unknownStatus', { status: 200, accepted: true, counted: true }],
  ['hostilePrLink', { status: 200, accepted: true, counted: true }],
];

describe('a planned fault', () => {
  test.each(effects)('%s strikes one message but not the next', async (kind, { status, accepted, counted }) => {
    const simulator = await start({ slowBodyMs: 40, hugeBodyBytes: 2_000_000 });
    simulator.failNext({ method: 'POST', jobId: 'job-1', kind });
    expect((await post(simulator, { jobId: 'job-2' })).status).toBe(200);
    const struck = post(simulator);
    if (status === undefined) await expect(struck).rejects.toThrow();
    else expect((await struck).status).toBe(status);
    expect(simulator.ledger[1]).toMatchObject({ accepted, fault: kind });
    expect(simulator.ledger[1]?.countedAtMs !== null).toBe(counted);
    expect(simulator.job('p1', 'job-1')?.messages ?? 0).toBe(accepted ? 1 : 0);
    expect((await post(simulator)).status).toBe(200);
    expect(simulator.stats().faults).toEqual({ [kind]: 1 });
  });

  test.each(effects)('%s strikes one read but not the next', async (kind, { status }) => {
    const simulator = await start({ slowBodyMs: 40, hugeBodyBytes: 2_000_000 });
    simulator.failNext({ method: 'GET', kind });
    const struck = get(simulator);
    if (status === undefined) await expect(struck).rejects.toThrow();
    else expect((await struck).status).toBe(status);
    expect((await get(simulator)).json).toMatchObject({ id: 'job-1' });
  });

  test.each([
    ['hangBefore', false],
    ['hangAfter', true],
  ] as const)('%s never answers', async (kind, accepted) => {
    const simulator = await start();
    simulator.failNext({ method: 'POST', kind });
    const struck = post(simulator).catch(String);
    await expect.poll(() => simulator.ledger).toMatchObject([{ accepted, status: accepted ? 200 : 0 }]);
    await simulator.close();
    expect(await struck).toMatch(CONNECTION_ENDED);
  });

  test('strikes as often as planned, in the order of the plans, until it is cleared', async () => {
    const simulator = await start();
    simulator.failNext({ method: 'GET', kind: 'http503', times: 2 });
    simulator.failNext({ method: 'GET', kind: 'http404', times: 9 });
    const statuses = [await get(simulator), await get(simulator), await get(simulator)].map(({ status }) => status);
    expect(statuses).toEqual([503, 503, 404]);
    simulator.clearFaults();
    expect((await get(simulator)).status).toBe(200);
  });

  test('answers any status with any text, whether the message is accepted or not', async () => {
    const simulator = await start();
    const conflict: PlannedFault = { method: 'POST', kind: 'status', statusCode: 409, message: 'busy' };
    simulator.failNext(conflict);
    simulator.failNext({ ...conflict, applied: true });
    expect(await post(simulator)).toMatchObject({ status: 409, json: { error: 'busy' } });
    expect(await post(simulator)).toMatchObject({ status: 409, json: { error: 'busy' } });
    expect(simulator.ledger.map((entry) => entry.accepted)).toEqual([false, true]);
  });

  test('can give Retry-After in each of its forms', { tags: 'long' }, async () => {
    const simulator = await start();
    for (const retryAfter of ['none', 'seconds', 'date'] as const) {
      simulator.failNext({ method: 'POST', kind: 'limited', retryAfter, retryAfterMs: 4_200 });
    }
    const headers = [await post(simulator), await post(simulator), await post(simulator)].map(
      (reply) => reply.headers['retry-after'],
    );
    expect(headers.slice(0, 2)).toEqual([undefined, '5']);
    expect(Date.parse(String(headers[2])) - Date.now()).toBeGreaterThan(4_000);
  });

  test('redirects a client to an address that counts its request', async () => {
    const simulator = await start();
    simulator.failNext({ method: 'POST', kind: 'redirect' });
    const { headers } = await post(simulator);
    expect(simulator.stats().redirectsFollowed).toBe(0);
    await fetch(String(headers['location']), { method: 'POST' });
    expect(simulator.stats().redirectsFollowed).toBe(1);
    simulator.update({ redirectLocation: 'https://elsewhere.example/' });
    simulator.failNext({ method: 'GET', kind: 'redirect' });
    expect((await get(simulator)).headers['location']).toBe('https://elsewhere.example/');
  });

  test('shows what its kind promises', async () => {
    const simulator = await start({ hugeBodyBytes: 3_000_000 });
    for (const kind of ['unknownStatus', 'hostilePrLink', 'html200', 'invalidJson', 'hugeBody'] as const) {
      simulator.failNext({ method: 'GET', kind });
    }
    expect((await get(simulator)).json['status']).toBe(UNKNOWN_STATUS);
    expect((await get(simulator)).json['prLink']).toBe(HOSTILE_PR_LINK);
    expect((await get(simulator)).text).toMatch(/^<!doctype html>/);
    const broken = (await get(simulator)).text;
    expect(() => JSON.parse(broken) as unknown).toThrow();
    const huge = await get(simulator);
    expect(huge.text).toHaveLength(3_000_000);
    expect(huge.json).toMatchObject({ id: 'job-1' });
  });

  test('repeats the Authorization header in errors, or everywhere, if asked to', async () => {
    const simulator = await start({ apiKey: 'canary-key' });
    const readOfBoth = async (): Promise<boolean[]> => {
      simulator.failNext({ method: 'GET', kind: 'http500' });
      return [await get(simulator), await get(simulator)].map(({ text }) => text.includes('Bearer canary-key'));
    };
    expect(await readOfBoth()).toEqual([false, false]);
    simulator.update({ echoAuthorization: 'errors' });
    expect(await readOfBoth()).toEqual([true, false]);
    simulator.update({ echoAuthorization: true });
    expect(await readOfBoth()).toEqual([true, true]);
  });
});

describe('random faults', () => {
  const faults = { get: { http503: 0.3 }, post: { limited: 0.2, http500: 0.2, resetBefore: 0.2 } };

  /** The outcomes of 5 messages to each of 12 jobs. The jobs run in parallel, so requests have no fixed order. */
  async function outcomes(seed: number): Promise<string[][]> {
    const simulator = await start({ seed, faults, outcomes: { completed: 1, failed: 1 } });
    return Promise.all(
      Array.from({ length: 12 }, async (_, job) => {
        const jobId = `job-${job}`;
        simulator.addJob({ projectId: 'p1', jobId });
        const seen: string[] = [];
        for (let message = 0; message < 5; message++) {
          seen.push(
            await post(simulator, { jobId }).then(
              ({ status }) => String(status),
              () => 'lost',
            ),
          );
        }
        await expect.poll(() => simulator.job('p1', jobId)?.status).not.toBe('active');
        return [...seen, simulator.job('p1', jobId)?.status ?? ''];
      }),
    );
  }

  test('are the same for the same seed, in whatever order requests of different jobs arrive', async () => {
    const [first, again, other] = [await outcomes(5), await outcomes(5), await outcomes(6)];
    expect(again).toEqual(first);
    expect(other).not.toEqual(first);
    expect(new Set(first.flat())).toEqual(new Set(['200', '429', '500', 'lost', 'completed', 'failed']));
  });

  test('strike about as often as their probability says, separately for each method', async () => {
    const simulator = await start({ faults: { get: { http503: 0.3 } } });
    const replies = await Promise.all(Array.from({ length: 400 }, () => get(simulator)));
    const struck = replies.filter(({ status }) => status === 503).length;
    expect(struck).toBeGreaterThan(90);
    expect(struck).toBeLessThan(150);
    expect((await post(simulator)).status).toBe(200);
  });
});
