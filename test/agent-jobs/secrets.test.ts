import { inspect } from 'node:util';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { errorText, readBody } from '../../src/agent-jobs/service-text.js';
import { createMaskCache, createSecretMask, MASK } from '../../src/secrets/secret-mask.js';
import { API_KEY, get, send, useClient, usePeer, writes } from './support/harness.js';
import { respond } from './support/peer.js';

const base64 = (text: string) => Buffer.from(text).toString('base64');
const hex = (text: string) => Buffer.from(text).toString('hex');
const each = (text: string, encode: (code: number) => string) =>
  Array.from(text, (character) => encode(character.charCodeAt(0))).join('');
const hex2 = (code: number) => code.toString(16).padStart(2, '0');

const entities: Record<string, string> = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot' };

const encodings: Record<string, (secret: string) => string> = {
  raw: (secret) => secret,
  'base64 of the bearer header': (secret) => base64(`Bearer ${secret}`),
  'base64 after one byte': (secret) => base64(`a${secret}b`),
  'base64 after two bytes': (secret) => base64(`ab${secret}cd`),
  'base64 in lines': (secret) => base64(`Bearer ${secret}`).replace(/.{8}/g, '$&\n'),
  base64url: (secret) => Buffer.from(`x${secret}yz`).toString('base64url'),
  'percent-encoded base64': (secret) => encodeURIComponent(base64(secret)),
  'JSON-escaped base64': (secret) => base64(secret).replaceAll('/', '\\/'),
  'percent-encoded': encodeURIComponent,
  'percent-encoded twice': (secret) => encodeURIComponent(encodeURIComponent(secret)),
  'every character percent-encoded': (secret) => each(secret, (code) => `%${hex2(code)}`),
  'JSON-escaped': (secret) => JSON.stringify(secret).slice(1, -1).replaceAll('/', '\\/'),
  'JSON-escaped twice': (secret) => JSON.stringify(JSON.stringify(secret)),
  'every character JSON-escaped': (secret) => each(secret, (code) => `\\u00${hex2(code)}`),
  'HTML-escaped': (secret) => secret.replace(/[&<>"']/g, (character) => `&${entities[character] ?? '#39'};`),
  'every character as an HTML entity': (secret) => each(secret, (code) => `&#x${hex2(code)};`),
  'hex in capitals': (secret) => hex(secret).toUpperCase(),
  'hex with colons': (secret) => hex(secret).replace(/..(?=.)/g, '$&:'),
};

const printable = fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code));
const secrets = fc.string({ minLength: 8, maxLength: 80, unit: printable });
const surroundings = fc.string({ maxLength: 20, unit: fc.constantFrom('{', '}', ':', ';', '.', ' ', '(') });

test.each(Object.entries(encodings))('a secret is masked, and no usable part of it is left: %s', (_name, encode) => {
  const property = fc.property(secrets, surroundings, surroundings, (secret, before, after) => {
    const masked = createSecretMask(secret)(`${before}${encode(secret)}${after}`);
    expect(masked).toContain(MASK);
    expect(masked).not.toContain(secret);
    expect(masked.startsWith(before)).toBe(true);
    expect(masked.endsWith(after)).toBe(true);
  });
  // To create a mask takes milliseconds.
  fc.assert(property, { numRuns: 30, seed: 20 });
  const left = createSecretMask(API_KEY)(encode(API_KEY)).replaceAll(MASK, '');
  const parts = Array.from({ length: API_KEY.length - 3 }, (_, from) => API_KEY.slice(from, from + 4));
  for (const encoding of ['utf8', 'base64', 'hex'] as const) {
    const plain = Buffer.from(left, encoding).toString('latin1');
    expect(parts.filter((part) => plain.includes(part))).toEqual([]);
  }
});

test('ordinary text is left alone', () => {
  const mask = createSecretMask(API_KEY);
  for (const text of ['https://git.example/org/repo/pull/12', 'adm_', base64('Bearer nothing'), ''])
    expect(mask(text)).toBe(text);
});

test('the newest 200 masks are kept, each made once', () => {
  const maskFor = createMaskCache();
  const make = () => Array.from({ length: 201 }, (_, index) => maskFor(`${API_KEY}-${200 - index}`));
  const [first, ...others] = make();
  expect(others.reverse().map((_, index) => maskFor(`${API_KEY}-${index}`))).toEqual(others);
  expect(maskFor(`${API_KEY}-200`)).not.toBe(first);
});

/** Pieces of escape sequences, of encodings and the beginning of the key. A pattern could try each of them again and again. */
const hostilePieces = [
  ...[';#', ';', '0;', '(', ']', '-/', 'a;', '\u001b', '\u001b[', '\u001b]', '\u001b[0;', '\u009b;#', '\u0090'],
  ...['%', '%25', '\\', '&amp;', '&#0', 'JSUl ', API_KEY.slice(0, -1), base64(API_KEY).slice(0, -4)],
];

test(
  '128 KiB of hostile text take the time of their length to read, as a job and as an error',
  { tags: 'long' },
  () => {
    const mask = createSecretMask(API_KEY);
    /** The processor time of the cheapest of five calls. Other load on the machine does not count. */
    const processorMs = (call: () => unknown): number => {
      const timesMs = Array.from({ length: 5 }, () => {
        const before = process.cpuUsage();
        call();
        return process.cpuUsage(before).user / 1_000;
      });
      return Math.min(...timesMs);
    };
    for (const piece of hostilePieces) {
      for (const start of ['', '\u001b', '\u001b[', '\u001b]', '\u009b']) {
        const id = start + piece.repeat(Math.floor(131_000 / (JSON.stringify(piece).length - 2)));
        const text = start + piece.repeat(Math.floor(131_000 / Buffer.byteLength(piece)));
        expect(processorMs(() => expect(readBody(JSON.stringify({ id }), mask)).toHaveProperty('job'))).toBeLessThan(
          50,
        );
        expect(processorMs(() => errorText(text, mask))).toBeLessThan(50);
      }
    }
  },
);

test('if the service echoes the key everywhere, no outcome contains it', async () => {
  const echoes = Object.values(encodings).map((encode) => encode(API_KEY));
  const echo = Object.fromEntries(echoes.map((text, index) => [`${index}${text}`, { deep: [text] }]));
  const headers = { 'x-echo': API_KEY, 'retry-after': API_KEY };
  const prLink = `https://x/?k=${encodeURIComponent(API_KEY)}`;
  const outcomes: object[] = [];
  for (const [status, body] of [
    [200, { id: API_KEY, prLink, ...echo }],
    [401, { error: echoes.join(' ') }],
    [500, echoes.join(' ')],
  ] as const) {
    const client = useClient((await usePeer(writes(respond(status, body, headers)))).url);
    outcomes.push(await get(client), await send(client));
  }
  const shown = `${JSON.stringify(outcomes)} ${inspect(outcomes, { depth: 20, showHidden: true })}`;
  for (const echoed of [...echoes, API_KEY.slice(0, 8)]) expect(shown).not.toContain(echoed);
  expect(shown).toContain(MASK);
});

test('a key that is cut off after 500 characters, or torn apart by terminal escapes, is masked', async () => {
  const torn = `${API_KEY.slice(0, 9)}\u001b[0m${API_KEY.slice(9)}`;
  for (const error of [`${'x'.repeat(480)}${API_KEY}`, torn, { error: torn }]) {
    const { message } = await send(useClient((await usePeer(writes(respond(400, error)))).url));
    expect(message).toMatch(/^HTTP 400: x*\[/);
    expect(message?.length).toBeLessThanOrEqual(500);
    for (const part of [API_KEY.slice(0, 4), API_KEY.slice(-4)]) expect(message).not.toContain(part);
  }
});

test('a parser error shows nothing of what the peer wrote', async () => {
  const peer = await usePeer(writes(`HTTP/1.1 200 OK\r\n${API_KEY} ${API_KEY}\r\n\r\n`));
  const client = useClient(peer.url);
  const outcomes = [await send(client), await get(client)];
  expect(outcomes).toMatchObject([{ outcome: 'unknown' }, { reason: 'network' }]);
  expect(inspect(outcomes, { depth: 20, showHidden: true })).not.toContain(API_KEY.slice(0, 8));
});
