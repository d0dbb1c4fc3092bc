import { expect, inject, test } from 'vitest';
import { interventionScenario } from '../../chaos/intervention-scenario.js';

test('cancel, terminate, reset and the loss of the budget, each in the midst of a send, make nothing untrue', async () => {
  const outcome = await interventionScenario({ seed: 1, address: inject('temporalAddress'), rounds: 2, lanes: 5 });
  expect(outcome.violations).toEqual([]);
  expect(outcome.counts).toMatchObject({ missed: 0, cancel: 2, terminate: 2, 'restore-budget': 2 });
}, 400_000);
