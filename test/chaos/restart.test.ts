import { expect, inject, test } from 'vitest';
import { scenarios } from '../../chaos/scenarios.js';

test('rolling restarts with 60 follow-ups under way leave no delivery unknown', async () => {
  const address = inject('temporalAddress');
  const { violations, counts } = await scenarios.restart({
    seed: 1,
    kills: 0,
    scale: 1,
    say: () => undefined,
    address,
  });
  expect(violations).toEqual([]);
  expect(counts).toMatchObject({ restarts: 3, no: 0, unknown: 0 });
}, 400_000);
