import { expect, inject, test } from 'vitest';
import { restartScenario } from '../../chaos/restart-scenario.js';

test('a worker that is replaced while 20 follow-ups run leaves no delivery unknown', async () => {
  const address = inject('temporalAddress');
  const { violations, counts } = await restartScenario({ seed: 1, address, underWay: 20, restarts: 1 });
  expect(violations).toEqual([]);
  expect(counts).toMatchObject({ restarts: 1, no: 0, unknown: 0 });
}, 900_000);
