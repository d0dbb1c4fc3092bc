import type { Random } from '../../src/simulator/random.js';
import type { HostileAnswer } from './hostile-service.js';

const JSON_TYPE = ['content-type', 'application/json'] as const;

/** A well-formed job. */
export const job = (status: string, prLink: unknown, more: object = {}): object => ({
  id: 'j',
  status,
  source: { repository: 'https://git.example/r', ref: 'main' },
  model: 'm',
  prLink,
  createdAt: '2026-01-01T00:00:00Z',
  archivedAt: null,
  ...more,
});

/** A well-formed answer. */
export function good(body: object, status = 200): HostileAnswer {
  return {
    name: `good ${status}`,
    status,
    headers: [JSON_TYPE],
    body: Buffer.from(JSON.stringify(body)),
    manner: 'whole',
  };
}

const text = (size: number, filling: string) => filling.repeat(Math.ceil(size / filling.length)).slice(0, size);
const nested = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`;
const withLink = (prLink: unknown) => JSON.stringify(job('completed', prLink));
const withStatus = (status: unknown) => JSON.stringify({ ...job('', null), status });
const withField = (field: string, value: string) =>
  JSON.stringify({ ...job('completed', null), [field]: '@' }).replace('"@"', value);

/** Bodies, named by what is special about them. */
const bodies: readonly (readonly [name: string, body: string | Buffer])[] = [
  ['nothing', ''],
  ['half an object', '{"id":"j","sta'],
  ['HTML', '<!doctype html><title>Sign in</title>'],
  ['null', 'null'],
  ['a list', '[]'],
  ['a text', '"completed"'],
  ['a number', '7'],
  ['an empty object', '{}'],
  ['a byte order mark', `\ufeff${withLink(null)}`],
  ['UTF-16', Buffer.from(withLink(null), 'utf16le')],
  [
    'broken UTF-8',
    Buffer.concat([Buffer.from('{"status":"completed","model":"'), Buffer.from([0xc3, 0x28, 0xff]), Buffer.from('"}')]),
  ],
  ['NUL bytes', Buffer.alloc(1_000)],
  ['a field twice', '{"status":"active","status":"completed"}'],
  ...['7', 'true', 'null', '[]', '{}', '-1e400'].flatMap((value) =>
    ['id', 'status', 'source', 'model', 'prLink', 'createdAt', 'archivedAt'].map(
      (field) => [`${field} ${value}`, withField(field, value)] as const,
    ),
  ),
  ['a source of wrong types', withField('source', '{"repository":5,"ref":[]}')],
  ...[
    'reviewing',
    'COMPLETED',
    ' completed',
    'completed ',
    'active',
    'failed',
    '',
    '\u001b[31mcompleted\u001b[0m',
    'a\u0000b',
    'state\nof\tplay',
  ].map((status) => [`status ${JSON.stringify(status)}`, withStatus(status)] as const),
  ['a status of 100 KB', withStatus(text(100_000, 'status '))],
  ['a status cut within a character', withStatus(`${text(254, 'a')}😀😀`)],
  ...[
    'javascript:alert(document.cookie)',
    'data:text/html,<script>alert(1)</script>',
    'file:///etc/passwd',
    '//evil.example',
    'https://git.example/`](javascript:x)',
    'https://git.example/ <b>',
    '\u001b]8;;https://evil.example\u0007click\u001b]8;;\u0007',
    '\u001b[2J\u001b[H\u009b31m',
    'a\u0000b\r\nset-cookie: x',
    '\u202ehttps://git.example\u202c\u2066',
    '\ud800',
    '',
    ' ',
    '../../..',
  ].map((prLink) => [`prLink ${JSON.stringify(prLink)}`, withLink(prLink)] as const),
  ...[255, 256, 2_049, 100_000, 1_048_576].map(
    (size) => [`prLink of ${size}`, withLink(`https://git.example/${text(size - 20, 'x')}`)] as const,
  ),
  ['prLink of 255 wide characters', withLink(text(255, '漢'))],
  ['prLink a list', withLink(['https://git.example'])],
  ['archivedAt of 100 KB', withField('archivedAt', JSON.stringify(text(100_000, '9')))],
  ['createdAt nonsense', withField('createdAt', '"yesterday"')],
  ['__proto__', `{"__proto__":{"status":"completed"},"constructor":{"prototype":{"status":"failed"}}}`],
  ['__proto__ in a job', withField('source', '{"__proto__":{"repository":7},"ref":"x"}')],
  ['toJSON, then and valueOf', withField('model', '"m","toJSON":"x","then":"y","valueOf":null,"hasOwnProperty":1')],
  ['64 levels', withField('extra', nested(62))],
  ['66 levels', withField('extra', nested(66))],
  ['60,000 levels', withField('extra', nested(60_000))],
  ['120 KB of fields', withField('extra', JSON.stringify(text(120_000, 'extra ')))],
  [
    '5,000 fields',
    JSON.stringify({
      ...job('completed', null),
      ...Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`f${index}`, index])),
    }),
  ],
  ['short numbers that grow', withField('extra', `[${text(124_999, '1e20,')}]`.replace(',]', ']'))],
  ['strings that grow when escaped', withField('extra', JSON.stringify(text(40_000, '"\\')))],
  ['a number beyond all', withField('extra', '1e400')],
  ['an error', '{"error":"no"}'],
  ['an error of 100 KB', JSON.stringify({ error: text(100_000, 'word ') })],
  ['an error of no text', '{"error":{"message":["x"]}}'],
  ['a good job', withLink('https://git.example/pull/2')],
];

const headerSets: readonly (readonly (readonly [string, string])[])[] = [
  [JSON_TYPE],
  [JSON_TYPE],
  [],
  [['content-type', 'text/html; charset=utf-16']],
  [['content-type', '']],
  [JSON_TYPE, ['content-encoding', 'gzip']],
  [JSON_TYPE, ['content-encoding', 'br']],
  ...[
    '0',
    '-1',
    '1',
    '3.5',
    '1e9',
    'soon',
    '99999999999999999999',
    'Thu, 01 Jan 1970 00:00:00 GMT',
    'Fri, 31 Dec 9999 23:59:59 GMT',
  ].map((value) => [JSON_TYPE, ['retry-after', value]] as const),
  [
    ['retry-after', '1'],
    ['retry-after', 'x'],
  ],
  [JSON_TYPE, ['retry-after', '2'], ['date', 'not a date']],
  [JSON_TYPE, ['connection', 'close']],
  [JSON_TYPE, ['connection', 'upgrade'], ['upgrade', 'h2c']],
  [JSON_TYPE, ['x', '\u001b[31m\u009b']],
  [JSON_TYPE, ['set-cookie', 'a=b'], ['www-authenticate', 'Basic realm="x"']],
  [JSON_TYPE, ['x-long', text(8_000, 'x')]],
  Array.from({ length: 100 }, (_, index) => [`x-${index}`, 'y'] as const),
  [
    ['content-length', '5'],
    ['content-length', '7'],
  ],
  [['content-length', '-1']],
  [['transfer-encoding', 'chunked']],
];

const statuses = [
  200, 200, 200, 200, 200, 200, 201, 202, 204, 206, 226, 300, 301, 302, 303, 304, 305, 307, 308, 400, 401, 402, 403,
  404, 404, 404, 405, 406, 408, 409, 410, 411, 413, 414, 418, 422, 423, 425, 426, 428, 429, 429, 431, 451, 499, 500,
  501, 502, 503, 504, 505, 507, 511, 520, 599, 600, 999,
];

const manners = [
  'whole',
  'whole',
  'whole',
  'whole',
  'whole',
  'whole',
  'half',
  'drip',
  'flood',
  'silent',
  'reset',
] as const;

/** Draws an answer from statuses, bodies, headers and manners. Redirects lead to `elsewhere`. */
export function drawAnswer(random: Random, elsewhere: string): HostileAnswer {
  const pick = <T>(items: readonly T[]): T => {
    const item = items[random.between(0, items.length - 1)];
    if (item === undefined) throw new Error('nothing to pick from');
    return item;
  };
  const status = pick(statuses);
  const [bodyName, body] = pick(bodies);
  const headers = pick(headerSets);
  const manner = pick(manners);
  const isRedirect = status >= 300 && status < 400;
  return {
    name: `${status} with ${bodyName}, ${manner}, ${JSON.stringify(headers[1] ?? headers[0] ?? null)?.slice(0, 60)}`,
    status,
    headers: isRedirect ? [...headers, ['location', `${elsewhere}/v2/agent/p/job/j`]] : headers,
    body: Buffer.isBuffer(body) ? body : Buffer.from(body),
    manner,
  };
}
