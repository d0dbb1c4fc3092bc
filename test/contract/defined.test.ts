import { expect, test } from 'vitest';
import { defined } from '../../src/contract/defined.js';

test('undefined fields are left out, and other falsy values stay', () => {
  const note: string | undefined = undefined;
  const fields: { name: string; note?: string } = defined({ name: 'nightly', note });

  expect(Object.keys(fields)).toEqual(['name']);
  expect(defined({ zero: 0, empty: '', no: false, none: null })).toEqual({ zero: 0, empty: '', no: false, none: null });
});
