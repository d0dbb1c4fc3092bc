import { expect, test } from 'vitest';
import { defined } from '../../src/contract/defined.js';

test('fields without a value are left out, and no other falsy value is', () => {
  const note: string | undefined = undefined;
  const fields: { name: string; note?: string } = defined({ name: 'nightly', note });

  expect(Object.keys(fields)).toEqual(['name']);
  expect(defined({ zero: 0, empty: '', no: false, none: null })).toEqual({ zero: 0, empty: '', no: false, none: null });
});
