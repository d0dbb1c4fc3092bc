import { expect, inject, test } from 'vitest';
import { scenarios } from '../../tools/chaos/scenarios.js';

test('a batch of 200 items has 200 outcomes that agree with the ledger, although one of its two workers is killed', async () => {
  const address = inject('temporalAddress');
  const { violations, counts } = await scenarios.batch({
    seed: 1,
    kills: 0,
    scale: 1,
    say: () => undefined,
    address,
  });
  expect(violations).toEqual([]);
  const { kills = 0, completed = 0, DeliveryUnknown = 0 } = counts;
  expect(kills).toBeGreaterThanOrEqual(1);
  expect(completed + DeliveryUnknown).toBe(200);
}, 900_000);
