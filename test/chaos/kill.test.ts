import { expect, inject, test } from 'vitest';
import { killScenario } from '../../chaos/kill-scenario.js';

test('a worker that is killed at any step of the send path doubles, loses and oversends nothing', async () => {
  const outcome = await killScenario({
    seed: 1,
    address: inject('temporalAddress'),
    kills: 40,
    recoveryKills: 5,
    lanes: 5,
  });
  expect(outcome.violations).toEqual([]);
  expect(outcome.counts).toMatchObject({ kills: 35, recoveryKills: 5, missed: 0 });
}, 400_000);
