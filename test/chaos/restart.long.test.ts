import { expect, inject, test } from 'vitest';
import { restartScenario } from '../../tools/chaos/restart-scenario.js';
import { scenarios } from '../../tools/chaos/scenarios.js';

const TIMEOUT_MS = 900_000;

test(
  'a worker that is replaced while 20 follow-ups run leaves no delivery unknown',
  async () => {
    const address = inject('temporalAddress');
    const { violations, counts } = await restartScenario({ seed: 1, address, underWay: 20, restarts: 1 });
    expect(violations).toEqual([]);
    expect(counts).toMatchObject({ restarts: 1, no: 0, unknown: 0 });
  },
  TIMEOUT_MS,
);

test(
  'workers that are replaced three times while 60 follow-ups run leave no delivery unknown',
  async () => {
    const run = { seed: 1, kills: 0, scale: 1, say: () => undefined, address: inject('temporalAddress') };
    const { violations, counts } = await scenarios.restart(run);
    expect(violations).toEqual([]);
    expect(counts).toMatchObject({ restarts: 3, no: 0, unknown: 0 });
  },
  TIMEOUT_MS,
);
