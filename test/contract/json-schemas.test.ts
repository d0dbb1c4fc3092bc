import { describe, expect, test } from 'vitest';
import { followUpInputSchema, followUpSettings, parseInput } from '../../src/contract/index.js';
import { batchItemsOf, parseBatchInput } from '../../src/protocol/index.js';
import { schemaCheck } from '../support/schema-check.js';

/** Whether the worker accepts an input. */
const isTaken = (input: unknown) => parseInput(followUpInputSchema, input).ok;
const item = { projectId: 'p', jobId: 'j', prompt: 'x' };

/** An input with one setting, by the setting's name, such as `poll.maxInterval`. */
function inputWith(name: string, value: unknown): object {
  const [outer = '', inner] = name.split('.');
  if (inner === undefined) return { ...item, [outer]: value };
  // A maximum of the longest duration allows any initial interval.
  const other = inner === 'initialInterval' ? { maxInterval: '365d' } : {};
  return { ...item, [outer]: { initialInterval: '100ms', ...other, [inner]: value } };
}

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const msOf = (text: string) => parseFloat(text) * UNIT_MS[text.replace(/^\d+/, '') as keyof typeof UNIT_MS];
/** A number without an exponent and without trailing zeros. */
const decimal = (value: number) => value.toFixed(9).replace(/\.?0+$/, '');

/** Values on both sides of both bounds of a duration, as numbers and in every unit, and values that are not durations. */
function durationsAround(min: string, max: string): unknown[] {
  const bounds = [msOf(min), msOf(max)].flatMap((ms) => [-1, -0.6, -0.4, 0, 0.4, 0.6, 1].map((more) => ms + more));
  const texts = bounds
    .filter((ms) => ms >= 0)
    .flatMap((ms) => Object.entries(UNIT_MS).map(([unit, unitMs]) => `${decimal(ms / unitMs)}${unit}`));
  const numbers = [...bounds.filter((ms) => Number.isInteger(ms)), 0, 1, -1, 1.5, 1e15];
  const odd = [
    '',
    '5',
    '5 s',
    '-1s',
    '1e3s',
    '.5s',
    '5s\n',
    '5s\r',
    '٥s',
    '５s',
    '5.s',
    '1h30m',
    '007s',
    '0.0s',
    '400d',
  ];
  return [...texts, ...numbers, ...odd, ...odd.map((text) => `0${text}`), true, [], {}, null];
}

const words: Record<string, string[]> = {
  lane: ['interactive', 'batch'],
  onUnknownDelivery: ['fail', 'assumeSent', 'resend'],
  whenActive: ['wait', 'send'],
};

function valuesOf(name: string, { min, max }: { min?: string | number; max?: string | number }): unknown[] {
  if (typeof min === 'string' && typeof max === 'string') return durationsAround(min, max);
  if (typeof min === 'number' && typeof max === 'number') {
    return ['1', null, {}, ...[min, max].flatMap((bound) => [-1, -0.001, 0, 0.001, 1].map((more) => bound + more))];
  }
  return [...(words[name] ?? []), '', 'other', 'Batch', 0, true, [], {}, null];
}

const long = 'a'.repeat(128);
const ids = [
  ...'a . .. a. a.b a..b __proto__ .a -a _a ~a - a- a/b ä a:b a.b.c.'.split(' '),
  ...['', 'a b', long, `${long}a`, `${long.slice(1)}.`, `${long}.`, 'a\n', 'a\r', 'a\u2028', 1, null, undefined],
];
const prompts = [
  ...[' \t\r\n', '\u0085', '\u001c', '\ufeff', '\u2028', '\u3000', '\u200b', ' x ', '', 'x'],
  ...['x'.repeat(262_144), 'x'.repeat(262_145), 1, null, undefined],
];
const nulls = Object.fromEntries(Object.keys(followUpSettings).map((name) => [name.split('.')[0], null]));
const odd: unknown[] = [
  ...[{}, item, { ...item, ...nulls }, { ...item, poll: {} }, { ...item, poll: { interval: '5s' } }],
  { ...item, poll: { initialInterval: null, maxInterval: null, backoffCoefficient: null } },
  ...[{ ...item, key: 'k' }, { ...item, Lane: 'batch' }, [item], null, 'text'],
];
const settings = Object.entries(followUpSettings) as [string, { min?: string | number; max?: string | number }][];
const inputs: [what: string, inputs: unknown[]][] = [
  ...settings.map(([name, setting]): [string, unknown[]] => [
    `${name}, ${'min' in setting ? 'at both of its bounds and beyond' : 'with its words and with others'}`,
    valuesOf(name, setting).map((value) => inputWith(name, value)),
  ]),
  ...['projectId', 'jobId'].map((name): [string, unknown[]] => [
    name,
    ids.map((value) => ({ ...item, [name]: value })),
  ]),
  ['a prompt, counted in characters', prompts.map((prompt) => ({ ...item, prompt }))],
  ['fields that are missing, unknown, or null', odd],
];
const batches: object[] = [
  { items: [item] },
  { items: [{ ...item, lane: null }], maxOpen: null, defaults: null, open: null },
  ...[0, 1, 500, 501, 1.5].map((maxOpen) => ({ items: [item], maxOpen })),
  ...[{ open: false }, { open: true, items: [] }, { jobIds: ['a'] }].map((more) => ({ items: [item], ...more })),
  ...[{ settleTime: '2h' }, { lane: 'batch' }, { poll: { initialInterval: '99ms' } }, { prompt: 'x' }].map(
    (defaults) => ({ items: [item], defaults }),
  ),
  ...['a..b', 'a\n'].map((jobId) => ({ items: [{ ...item, jobId }] })),
  ...['a', 'b..c'].map((jobId) => ({ projectId: 'p', prompt: 'x', jobIds: ['a', jobId] })),
  ...[{ prompt: '' }, {}].map((prompt) => ({ projectId: 'p', jobIds: ['a'], ...prompt })),
  {},
];

describe.each(['JavaScript', 'Python'] as const)('a JSON Schema, read in %s,', (language) => {
  const fits = schemaCheck('follow-up-input', language);

  test.each(inputs)('accepts what the worker accepts for %s', (_what, values) => {
    const taken = values.filter(isTaken);
    expect(values.filter((input) => fits(input).length === 0)).toEqual(taken);
    expect(taken.length).toBeGreaterThan(0);
    expect(taken.length).toBeLessThan(values.length);
  });

  test('accepts inputs that break one of two rules that JSON Schema cannot express', () => {
    const inputs = [
      { ...item, prompt: 'ä'.repeat(131_073) },
      { ...item, poll: { initialInterval: '10s', maxInterval: '5s' } },
    ];
    expect(inputs.map(isTaken)).toEqual([false, false]);
    expect(inputs.map((input) => fits(input).length === 0)).toEqual([true, true]);
  });

  test('accepts the batches that the worker accepts', () => {
    const batchFits = schemaCheck('follow-up-batch-input', language);
    expect(batches.filter((input) => batchFits(input).length === 0)).toEqual(
      batches.filter((input) => parseBatchInput(input).ok),
    );
  });
});

test('null counts as a missing field, and in a batch falls back to the next default', () => {
  const given = { ...nulls, poll: { initialInterval: null } };
  expect(parseInput(followUpInputSchema, { ...item, ...given })).toEqual(parseInput(followUpInputSchema, item));
  const batch = { items: [{ ...item, settleTime: null, lane: null }], defaults: { settleTime: '5s', lane: null } };
  expect(batchItemsOf(batch)).toEqual([{ ...item, settleTime: '5s', lane: 'batch' }]);
});
