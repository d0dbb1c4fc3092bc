import { describe, expect, test } from 'vitest';
import { batchItemsOf, parseBatchInput } from '../../src/contract/batch-input.js';
import { followUpInputSchema, followUpSettings } from '../../src/contract/follow-up-input.js';
import { parseInput } from '../../src/contract/validation.js';
import { schemaCheck } from '../support/schema-check.js';

/** Whether the worker accepts an input. */
const isTaken = (input: unknown) => parseInput(followUpInputSchema, input).ok;
const languages = ['JavaScript', 'Python'] as const;
const base = { projectId: 'p', jobId: 'j', prompt: 'x' };

/** An input with one setting, by the setting's name, such as `poll.maxInterval`. */
function inputWith(name: string, value: unknown): object {
  const [outer = '', inner] = name.split('.');
  if (inner === undefined) return { ...base, [outer]: value };
  // A maximum of the longest duration allows any initial interval.
  const other = inner === 'initialInterval' ? { maxInterval: '365d' } : {};
  return { ...base, [outer]: { initialInterval: '100ms', ...other, [inner]: value } };
}

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const msOf = (text: string) => {
  const [, count, unit] = /^(\d+)(ms|s|m|h|d)$/.exec(text) ?? [];
  return Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS];
};
/** A number without an exponent and without trailing zeros. */
const decimal = (value: number) => value.toFixed(9).replace(/\.?0+$/, '');

/**
 * Values on both sides of both bounds of a duration, as numbers and in every unit, and values that are not durations.
 */
function durationsAround(min: string, max: string): unknown[] {
  const bounds = [msOf(min), msOf(max)].flatMap((ms) => [ms - 1, ms - 0.6, ms - 0.4, ms, ms + 0.4, ms + 0.6, ms + 1]);
  const texts = bounds
    .filter((ms) => ms >= 0)
    .flatMap((ms) => Object.entries(UNIT_MS).map(([unit, unitMs]) => `${decimal(ms / unitMs)}${unit}`));
  const numbers = [...bounds.filter((ms) => Number.isInteger(ms)), 0, 1, -1, 1.5, 1e15];
  const odd = [
    '',
    '5',
    '5 s',
    's',
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
    '00100ms',
    '400d',
    '9999999999d',
  ];
  return [...texts, ...numbers, ...odd, ...odd.map((text) => `0${text}`), true, [], {}, null];
}

const valuesOf = (name: string, { min, max }: { min?: string | number; max?: string | number }): unknown[] => {
  if (typeof min === 'string' && typeof max === 'string') return durationsAround(min, max);
  if (typeof min === 'number' && typeof max === 'number') {
    return [
      min - 1,
      min - 0.001,
      min,
      min + 0.001,
      max - 0.001,
      max,
      max + 0.001,
      max + 1,
      String(min),
      null,
      true,
      {},
    ];
  }
  const words: Record<string, string[]> = {
    lane: ['interactive', 'batch'],
    onUnknownDelivery: ['fail', 'assumeSent', 'resend'],
    whenActive: ['wait', 'send'],
  };
  return [...(words[name] ?? []), '', 'other', 'Batch', 0, true, [], {}, null];
};

describe.each(languages)('the JSON Schema of an input, read in %s, agrees with the worker', (language) => {
  const fits = schemaCheck('follow-up-input', language);
  const settings = Object.entries(followUpSettings) as [string, { min?: string | number; max?: string | number }][];

  test.each(settings)('on %s, at both of its bounds and beyond', (name, setting) => {
    const values = valuesOf(name, setting);
    const verdicts = values.map((value) => ({ value, taken: isTaken(inputWith(name, value)) }));
    expect(verdicts.map(({ value }) => ({ value, taken: fits(inputWith(name, value)).length === 0 }))).toEqual(
      verdicts,
    );
    expect(new Set(verdicts.map(({ taken }) => taken))).toEqual(new Set([true, false]));
  });

  test.each(['projectId', 'jobId'])('on %s', (name) => {
    const long = 'a'.repeat(128);
    const values = [
      '',
      'a',
      '.',
      '..',
      'a.',
      'a.b',
      'a..b',
      '__proto__',
      'a..',
      '.a',
      '-a',
      '_a',
      '~a',
      '-',
      '__proto__',
      'a-',
      'a/b',
      'a b',
      'ä',
      'a:b',
      'a.b.c.',
    ];
    for (const value of [
      ...values,
      long,
      `${long}a`,
      `${long.slice(1)}.`,
      `${long}.`,
      'a\n',
      'a\r',
      'a\u2028',
      1,
      null,
      undefined,
    ]) {
      const input = { ...base, [name]: value };
      expect({ value, taken: fits(input).length === 0 }).toEqual({ value, taken: isTaken(input) });
    }
  });

  test('on prompt, counted in characters', () => {
    const blanks = [' \t\r\n', '\u0085', '\u001c', '\ufeff', '\u2028', '\u3000', '\u200b', ' x '];
    for (const prompt of [...blanks, '', 'x', 'x'.repeat(262_144), 'x'.repeat(262_145), 1, null, undefined]) {
      const input = { ...base, prompt };
      expect(fits(input).length === 0).toBe(isTaken(input));
    }
  });

  test('on fields that are missing, unknown, or null', () => {
    const nulls = { lane: null, onUnknownDelivery: null, whenActive: null, poll: null, settleTime: null };
    const inputs = [
      {},
      base,
      { ...base, ...nulls, jobTimeout: null, budgetWaitTimeout: null },
      { ...base, poll: { initialInterval: null, maxInterval: null, backoffCoefficient: null } },
      { ...base, poll: {} },
      { ...base, poll: { interval: '5s' } },
      { ...base, key: 'k' },
      { ...base, Lane: 'batch' },
      [base],
      null,
      'text',
    ];
    for (const input of inputs)
      expect({ input, taken: fits(input).length === 0 }).toEqual({ input, taken: isTaken(input) });
  });

  test('except on two rules, which JSON Schema cannot express', () => {
    const inputs = [
      { ...base, prompt: 'ä'.repeat(131_073) },
      { ...base, poll: { initialInterval: '10s', maxInterval: '5s' } },
    ];
    expect(inputs.map(isTaken)).toEqual([false, false]);
    expect(inputs.map((input) => fits(input).length === 0)).toEqual([true, true]);
  });
});

test('null counts as a missing field', () => {
  const nulls = { lane: null, poll: { initialInterval: null }, settleTime: null, jobTimeout: null };
  expect(parseInput(followUpInputSchema, { ...base, ...nulls })).toEqual(parseInput(followUpInputSchema, base));
});

describe.each(languages)('the JSON Schema of a batch, read in %s, agrees with the worker', (language) => {
  const batchFits = schemaCheck('follow-up-batch-input', language);
  const item = { projectId: 'p', jobId: 'j', prompt: 'x' };

  test.each([
    { items: [item] },
    { items: [{ ...item, lane: null }], maxOpen: null, defaults: null, open: null },
    { items: [item], maxOpen: 0 },
    { items: [item], maxOpen: 1 },
    { items: [item], maxOpen: 500 },
    { items: [item], maxOpen: 501 },
    { items: [item], maxOpen: 1.5 },
    { items: [item], open: false },
    { items: [], open: true },
    { items: [item], defaults: { settleTime: '2h' } },
    { items: [item], defaults: { lane: 'batch', poll: { initialInterval: '99ms' } } },
    { items: [item], defaults: { prompt: 'x' } },
    { items: [{ ...item, jobId: 'a..b' }] },
    { items: [{ ...item, jobId: 'a\n' }] },
    { items: [item], defaults: { settleTime: '5s\n' } },
    { projectId: 'p', prompt: 'x', jobIds: ['a', 'b'] },
    { projectId: 'p', prompt: 'x', jobIds: ['a', 'b..c'] },
    { projectId: 'p', prompt: '', jobIds: ['a'] },
    { projectId: 'p', jobIds: ['a'] },
    { items: [item], jobIds: ['a'] },
    {},
  ])('on %j', (input) => {
    expect(batchFits(input).length === 0).toBe(parseBatchInput(input).ok);
  });

  test('and a null in an item or in the defaults falls back to the next default', () => {
    const batch = { items: [{ ...item, settleTime: null, lane: null }], defaults: { settleTime: '5s', lane: null } };
    expect(batchItemsOf(batch)).toEqual([{ ...item, settleTime: '5s', lane: 'batch' }]);
  });
});
