import { inspect } from 'node:util';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createMaskCache, createSecretMask, MASK } from '../../src/agent-jobs/secret-mask.js';
import { errorText, parseJob } from '../../src/agent-jobs/service-text.js';
import { API_KEY, get, send, useClient, usePeer } from './support/harness.js';
import { answer } from './support/peer.js';

const base64 = (text: string) => Buffer.from(text).toString('base64');
const base64url = (text: string) => Buffer.from(text).toString('base64url');
const hex = (text: string) => Buffer.from(text).toString('hex');
const each = (text: string, encode: (code: number) => string) =>
  Array.from(text, (character) => encode(character.charCodeAt(0))).join('');
const hex2 = (code: number) => code.toString(16).padStart(2, '0');

const encodings: Record<string, (secret: string) => string> = {
  raw: (secret) => secret,
  'bearer header': (secret) => `Authorization: Bearer ${secret}`,
  base64,
  'base64 of the bearer header': (secret) => base64(`Bearer ${secret}`),
  'base64 after one byte': (secret) => base64(`a${secret}b`),
  'base64 after two bytes': (secret) => base64(`ab${secret}cd`),
  'base64 in a JSON text': (secret) => base64(JSON.stringify({ headers: { authorization: `Bearer ${secret}` } })),
  'base64 in lines': (secret) => base64(`Bearer ${secret}`).replace(/.{8}/g, '$&\n'),
  base64url: (secret) => base64url(`x${secret}yz`),
  'percent-encoded base64': (secret) => encodeURIComponent(base64(secret)),
  'JSON-escaped base64': (secret) => base64(secret).replaceAll('/', '\\/'),
  'percent-encoded': encodeURIComponent,
  'percent-encoded twice': (secret) => encodeURIComponent(encodeURIComponent(secret)),
  'every character percent-encoded': (secret) => each(secret, (code) => `%${hex2(code)}`),
  'JSON-escaped': (secret) => JSON.stringify(secret).slice(1, -1).replaceAll('/', '\\/'),
  'JSON-escaped twice': (secret) => JSON.stringify(JSON.stringify(secret)),
  'every character JSON-escaped': (secret) => each(secret, (code) => `\\u00${hex2(code)}`),
  'HTML-escaped': (secret) =>
    secret.replace(
      /[&<>"']/g,
      (character) => `&${{ '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot' }[character] ?? '#39'};`,
    ),
  'every character as an HTML entity': (secret) => each(secret, (code) => `&#x${hex2(code)};`),
  hex,
  'hex in capitals': (secret) => hex(secret).toUpperCase(),
  'hex with colons': (secret) => hex(secret).replace(/..(?=.)/g, '$&:'),
};

/** The length of the longest part of `text` that is also in `other`. */
function longestShared(text: string, other: string): number {
  let longest = 0;
  for (let from = 0; from < text.length; from++) {
    while (other.includes(text.slice(from, from + longest + 1)) && from + longest < text.length) longest++;
  }
  return longest;
}

const secretArbitrary = fc.string({
  minLength: 8,
  maxLength: 80,
  unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)),
});
const surroundingArbitrary = fc.string({ maxLength: 20, unit: fc.constantFrom('{', '}', ':', ';', '.', ' ', '(') });

test.for(Object.keys(encodings))('a secret is masked: %s', (name) => {
  const encode = encodings[name] ?? String;
  fc.assert(
    fc.property(secretArbitrary, surroundingArbitrary, surroundingArbitrary, (secret, before, after) => {
      const encoded = encode(secret);
      const masked = createSecretMask(secret)(`${before}${encoded}${after}`);
      expect(masked).toContain(MASK);
      expect(masked).not.toContain(secret);
      expect(masked.startsWith(before)).toBe(true);
      expect(masked.endsWith(after)).toBe(true);
    }),
    { numRuns: 300, seed: 20 },
  );
});

test.for(Object.keys(encodings))('no usable part of the key is left: %s', (name) => {
  const encoded = (encodings[name] ?? String)(API_KEY);
  const masked = createSecretMask(API_KEY)(encoded);
  const left = masked.replaceAll(MASK, '');
  expect(left).not.toContain(API_KEY.slice(0, 4));
  for (const plain of [
    left,
    Buffer.from(left, 'base64').toString('latin1'),
    Buffer.from(left, 'hex').toString('latin1'),
  ]) {
    expect(longestShared(API_KEY, plain)).toBeLessThan(4);
  }
});

test('ordinary text is left alone', () => {
  const mask = createSecretMask(API_KEY);
  for (const text of ['https://git.example/org/repo/pull/12', 'adm_', base64('Bearer nothing'), ''])
    expect(mask(text)).toBe(text);
});

/** The processor time in milliseconds of the cheapest of five calls. Other load on the machine does not count. */
function processorMs(call: () => void): number {
  const timesMs = Array.from({ length: 5 }, () => {
    const before = process.cpuUsage();
    call();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  });
  return Math.min(...timesMs);
}

test('the newest 200 masks are kept, each made once', () => {
  const maskFor = createMaskCache();
  const keyOf = (index: number) => `${API_KEY}-${index}`;
  const masks = Array.from({ length: 201 }, (_, index) => maskFor(keyOf(index)));
  expect(masks.slice(1).map((_, index) => maskFor(keyOf(index + 1)))).toEqual(masks.slice(1));
  const again = maskFor(keyOf(0));
  expect(again).not.toBe(masks[0]);
  expect(again(`key: ${keyOf(0)}`)).toBe(`key: ${MASK}`);
});

test('masking a hostile text takes time in proportion to its length', { tags: 'long' }, () => {
  const mask = createSecretMask('%%%%%%%%\\\\&&&&====////++++');
  for (const piece of ['\\', '%25', '&amp;', 'JSUl ', '25 ', '%', ' ', '&#0']) {
    const text = piece.repeat(Math.ceil(131_072 / piece.length));
    expect(processorMs(() => mask(text))).toBeLessThan(1_000);
  }
});

/** Pieces of escape sequences and the beginning of the key. A pattern could try each of them again and again. */
const hostilePieces = [
  ...[';#', ';', '0;', '(', ']', '-/', 'a;', '\u001b', '\u001b[', '\u001b]', '\u001b[0;', '\u009b;#', '\u0090'],
  ...['%', '\\', '&amp;', API_KEY.slice(0, -1), base64(API_KEY).slice(0, -4), hex(API_KEY).slice(0, -2)],
];

test.each(hostilePieces)(
  '128 KiB of %j takes less than 50 ms to read, as a job and as an error',
  { tags: 'long' },
  (piece) => {
    const mask = createSecretMask(API_KEY);
    for (const start of ['', '\u001b', '\u001b[', '\u001b]', '\u009b']) {
      const id = start + piece.repeat(Math.floor(131_000 / (JSON.stringify(piece).length - 2)));
      const job = JSON.stringify({ id });
      const text = start + piece.repeat(Math.floor(131_000 / Buffer.byteLength(piece)));
      expect(processorMs(() => expect(parseJob(job, mask).ok).toBe(true))).toBeLessThan(50);
      expect(processorMs(() => errorText(text, mask))).toBeLessThan(50);
    }
  },
);

test('if the service echoes the key everywhere, no outcome contains it', async () => {
  const echoes = Object.values(encodings).map((encode) => encode(API_KEY));
  const echo = Object.fromEntries(echoes.map((text, index) => [`${index}${text}`, { deep: [text] }]));
  const peer = await usePeer({
    onRequest: ({ socket }, { method }) => {
      const status = (peer.requests.length % 2 === 0 ? { GET: 500, POST: 401 }[method] : 200) ?? 200;
      const headers = { 'x-echo': API_KEY, 'retry-after': API_KEY };
      socket.end(
        answer(
          status,
          status === 200
            ? { id: API_KEY, prLink: `https://x/?k=${encodeURIComponent(API_KEY)}`, ...echo }
            : { error: echoes.join(' ') },
          headers,
        ),
      );
    },
  });
  const client = useClient(peer.url);
  const outcomes = [await get(client), await get(client), await send(client), await send(client)];
  expect(outcomes).toMatchObject([
    { kind: 'job' },
    { reason: 'service' },
    { outcome: 'sent' },
    { outcome: 'unauthorized' },
  ]);
  const shown = outcomes
    .map((outcome) => `${JSON.stringify(outcome)} ${inspect(outcome, { depth: 20, showHidden: true })}`)
    .join();
  for (const echoed of echoes) expect(shown).not.toContain(echoed);
  expect(shown).not.toContain(API_KEY.slice(0, 8));
  expect(shown).toContain(MASK);
});

test('a key at the edge of the 500 characters is masked before the cut', async () => {
  const peer = await usePeer({
    onRequest: ({ socket }) => socket.end(answer(400, { error: `${'x'.repeat(480)}${API_KEY}` })),
  });
  const { message = '' } = await send(useClient(peer.url));
  expect(message).not.toContain(API_KEY.slice(0, 4));
  expect(message.length).toBeLessThanOrEqual(500);
});

test('a key torn apart by terminal escapes is masked', async () => {
  const torn = `${API_KEY.slice(0, 9)}\u001b[0m${API_KEY.slice(9)}`;
  const peer = await usePeer({
    onRequest: ({ socket }, { method }) => socket.end(method === 'GET' ? answer(200, { id: torn }) : answer(400, torn)),
  });
  const client = useClient(peer.url);
  expect(await get(client)).toEqual({ kind: 'job', job: { id: MASK } });
  expect((await send(client)).message).toBe(`HTTP 400: ${MASK}`);
});

test('a parser error shows nothing of what the peer wrote', async () => {
  const peer = await usePeer({
    onRequest: ({ socket }) => socket.end(`HTTP/1.1 200 OK\r\n${API_KEY} ${API_KEY}\r\n\r\n`),
  });
  const client = useClient(peer.url);
  const outcomes = [await send(client), await get(client)];
  expect(outcomes).toMatchObject([{ outcome: 'unknown' }, { reason: 'network' }]);
  expect(inspect(outcomes, { depth: 20, showHidden: true })).not.toContain(API_KEY.slice(0, 8));
});
