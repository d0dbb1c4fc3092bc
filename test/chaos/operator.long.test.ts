import { expect, inject, test } from 'vitest';
import { operator } from '../../tools/chaos/operator.js';

test('an operator who presses buttons in the middle of sends repeats nothing, loses nothing, and reads only the truth', async () => {
  const { violations, counts } = await operator({ seed: 1, scale: 1, address: inject('temporalAddress') });
  expect(violations).toEqual([]);
  expect(counts).toMatchObject({ stopped: 10 });
}, 1_800_000);
