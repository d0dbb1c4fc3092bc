import dns, { type LookupAddress } from 'node:dns';
import { type AddressInfo, createServer } from 'node:net';
import type { ApplicationFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterAll, expect, onTestFinished, test, vi } from 'vitest';
import type { WebhookRequest } from '../../src/protocol/index.js';
import { createSerialLookup } from '../../src/webhooks/lookup.js';
import { parseTargets } from '../../src/webhooks/targets.js';
import { createWebhookActivities, type WebhookDependencies } from '../../src/webhooks/webhook-activities.js';
import { eventually } from '../support/eventually.js';
import { newWebhookSecret, startWebhookReceiver } from '../support/webhook-receiver.js';

const hang = () => new Promise<number>(() => undefined);
/** Paths whose requests get no response. */
const hangs = new Set(['/hangs']);
const { received, url, close } = await startWebhookReceiver(({ path }) => (hangs.has(path) ? hang() : 204));
afterAll(close);

const data = {
  workflowId: 'follow-up/p/j/k',
  state: 'completed',
  status: 'completed',
  prLink: 'https://git.example/pull/1',
  delivered: 'yes',
} as const;
const body = { type: 'follow-up.ended', timestamp: '2026-11-29T00:00:00.000Z', data } as const;

const logger = new DefaultLogger('ERROR', () => undefined);

/** A worker with targets by name. Returns a function that makes one attempt. */
function worker(urls: Record<string, string>, more: Partial<WebhookDependencies> = {}) {
  const secrets = [newWebhookSecret()];
  const targets = parseTargets(
    JSON.stringify(Object.fromEntries(Object.entries(urls).map(([name, to]) => [name, { url: to, secrets }]))),
  );
  const dependencies = { targets: async () => targets, linksArePrivate: false, maxAttempts: 100, ...more };
  const { deliverWebhook } = createWebhookActivities(dependencies);
  return (target: string, attempt = 1): Promise<ApplicationFailure | undefined> => {
    const order: WebhookRequest = { target, id: 'id', body };
    return new MockActivityEnvironment({ attempt }, { logger }).run(deliverWebhook, order).then(
      () => undefined,
      (error: unknown) => error as ApplicationFailure,
    );
  };
}

/** A receiver that answers every request with these bytes, and then cuts the connection. */
async function startRawReceiver(answer: string): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => socket.write(answer, () => socket.destroySoon()));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

const waitMs = (failure: ApplicationFailure | undefined) => Number(failure?.nextRetryDelay);

test.each([
  ['its body is lost', 'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf'],
  ['an interim response comes first', 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n'],
])('a 2xx counts as delivered even if %s', async (_, answer) => {
  expect(await worker({ raw: await startRawReceiver(answer) })('raw')).toBeUndefined();
});

test('the waits between attempts double from 5 s to an hour; a longer Retry-After counts, up to an hour', async () => {
  const attempt = async (head: string, number?: number) =>
    waitMs(await worker({ raw: await startRawReceiver(`HTTP/1.1 503 -\r\n${head}\r\n`) })('raw', number));
  for (const [ms, head, number] of [
    [5_000, ''],
    [40_000, '', 4],
    [3_600_000, '', 30],
    [5_000, 'retry-after: 1\r\n'],
  ] as const) {
    const share = (await attempt(head, number)) / ms;
    expect(share).toBeGreaterThanOrEqual(0.8);
    expect(share).toBeLessThanOrEqual(1.201);
  }
  expect(await attempt('retry-after: 600\r\n')).toBe(600_000);
  expect(await attempt('retry-after: 86400\r\n')).toBe(3_600_000);
});

test('a refused webhook names a wrong clock, because its signature has the time', async () => {
  const refuses = await startRawReceiver('HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n');
  const failure = await worker({ refuses }, { clockProblem: () => 'the clock is 10 min behind' })('refuses');
  expect(failure?.message).toBe('refuses answers HTTP 400; the clock is 10 min behind (attempt 1)');
});

test('ten attempts to a slow receiver leave other receivers free, and an eleventh waits as after a failure', async () => {
  const attempt = worker({ slow: url('/hangs'), fast: url('/fast') }, { maxAttempts: 12 });
  for (let number = 1; number <= 10; number++) void attempt('slow');
  const turnedAway = await attempt('slow', 30);
  expect(turnedAway).toMatchObject({ message: '10 other attempts are under way, 10 to slow (attempt 30)' });
  expect(turnedAway).toMatchObject({ nonRetryable: false });
  // 7,200 webhooks that wait for one receiver make two attempts a second.
  expect(waitMs(turnedAway)).toBeGreaterThanOrEqual(0.8 * 3_600_000);
  expect(await attempt('fast')).toBeUndefined();
});

test('attempts to many slow receivers take no more than their share of a worker', async () => {
  const attempt = worker({ a: url('/hangs'), b: url('/hangs'), c: url('/hangs') }, { maxAttempts: 2 });
  for (const name of ['a', 'b']) void attempt(name);
  expect((await attempt('c'))?.message).toBe('2 other attempts are under way, 0 to c (attempt 1)');
});

test(
  'a receiver that does not answer within 15 s gets one attempt at a time, until it answers',
  { tags: 'long' },
  async () => {
    const path = '/silent';
    hangs.add(path);
    const attempt = worker({ silent: url(path), fast: url('/fast') });
    const arrived = () => received.filter((webhook) => webhook.path === path).length;
    expect((await attempt('silent'))?.message).toBe(
      'silent does not answer: the deadline of 15000 ms has passed (attempt 1)',
    );
    const only = attempt('silent', 2);
    expect((await attempt('silent'))?.message).toBe('1 other attempts are under way, 1 to silent (attempt 1)');
    expect(await attempt('fast')).toBeUndefined();
    await only;
    hangs.delete(path);
    expect(await attempt('silent', 3)).toBeUndefined();
    hangs.add(path);
    for (let number = 1; number <= 10; number++) void attempt('silent');
    expect((await attempt('silent'))?.message).toBe('10 other attempts are under way, 10 to silent (attempt 1)');
    expect(arrived()).toBe(1);
  },
);

test('a webhook has no link if links are private', async () => {
  const attempt = (linksArePrivate: boolean) =>
    worker({ linked: url(`/private-${linksArePrivate}`) }, { linksArePrivate })('linked');
  await Promise.all([attempt(true), attempt(false)]);
  const dataTo = (path: string) => received.find((webhook) => webhook.path === path)?.body.data;
  expect(dataTo('/private-false')).toEqual(data);
  const { prLink: _link, ...rest } = data;
  expect(dataTo('/private-true')).toEqual(rest);
});

test('host names are looked up one at a time, and once for all who ask in the meantime', async () => {
  const asked: string[] = [];
  const answers = new Map<string, (addresses: LookupAddress[] | Error) => void>();
  const lookup = createSerialLookup(
    (name) => {
      asked.push(name);
      return new Promise((resolve, reject) => {
        answers.set(name, (answer) => (answer instanceof Error ? reject(answer) : resolve(answer)));
      });
    },
    () => new Promise(() => undefined),
  );
  const found: unknown[] = [];
  const find = (name: string, all: boolean) =>
    lookup(name, { all }, (error, address) => void found.push(error?.message ?? address));
  for (const name of ['slow', 'slow', 'missing', 'other']) find(name, name !== 'other');
  await eventually('the first is asked', () => asked.length === 1);
  const address = { address: '192.0.2.1', family: 4 };
  answers.get('slow')?.([address]);
  await eventually('the second is asked', () => asked.length === 2);
  expect(found).toEqual([[address], [address]]);
  answers.get('missing')?.(new Error('ENOTFOUND'));
  await eventually('the third is asked', () => asked.length === 3);
  answers.get('other')?.([address]);
  await eventually('all are answered', () => found.length === 4);
  expect(found.slice(2)).toEqual(['ENOTFOUND', '192.0.2.1']);
  expect(asked).toEqual(['slow', 'missing', 'other']);
});

test('a name whose name server does not answer holds up no other webhook, and no second lookup', async () => {
  const looksUp = vi.spyOn(dns.promises, 'lookup').mockImplementation(() => new Promise(() => undefined));
  const asks = vi.spyOn(dns.promises, 'resolve4').mockImplementation(async (name) => {
    if (name !== 'localhost') throw new Error('ETIMEOUT');
    return ['127.0.0.1'];
  });
  vi.spyOn(dns.promises, 'resolve6').mockRejectedValue(new Error('ETIMEOUT'));
  onTestFinished(() => void vi.restoreAllMocks());
  const here = (path: string) => url(path).replace('127.0.0.1', 'localhost');
  const attempt = worker({ dead: 'https://dead.invalid/', one: here('/one'), two: here('/two') });
  void attempt('dead');
  expect(await Promise.all([attempt('one'), attempt('two')])).toEqual([undefined, undefined]);
  expect(looksUp.mock.calls.map(([name]) => name)).toEqual(['dead.invalid']);
  expect(asks.mock.calls.filter(([name]) => name === 'localhost')).toHaveLength(1);
});
