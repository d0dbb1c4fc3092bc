import { expect, inject, test } from 'vitest';
import { killScenario } from '../../chaos/kill-scenario.js';

test('a worker that is killed at any step of the send path doubles, loses and oversends nothing', async () => {
  const outcome = await killScenario({
    seed: 1,
    address: inject('temporalAddress'),
    kills: 40,
    recoveryKills: 4,
    lanes: 4,
    ...(process.env['CHAOS_SAY'] && { say: (line: string) => console.log(line) }),
  });
  console.log(JSON.stringify(outcome));
  expect(outcome.violations).toEqual([]);
  expect(outcome.counts).toMatchObject({ kills: 36, recoveryKills: 4, missed: 0 });
}, 400_000);
