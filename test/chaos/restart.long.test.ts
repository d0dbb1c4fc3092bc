import { expect, inject, test } from 'vitest';
import { scenarios } from '../../chaos/scenarios.js';

test('workers that are replaced three times while 60 follow-ups run leave no delivery unknown', async () => {
  const run = { seed: 1, kills: 0, scale: 1, say: () => undefined, address: inject('temporalAddress') };
  const { violations, counts } = await scenarios.restart(run);
  expect(violations).toEqual([]);
  expect(counts).toMatchObject({ restarts: 3, no: 0, unknown: 0 });
}, 900_000);
