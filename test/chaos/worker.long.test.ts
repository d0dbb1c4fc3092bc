import { describe, expect, inject, test } from 'vitest';
import { faultPoints } from '../../tools/chaos/fault-point-names.js';
import { scenarios } from '../../tools/chaos/scenarios.js';

const TIMEOUT_MS = 900_000;
const say = () => undefined;
const run = () => ({ seed: 1, kills: 40, scale: 1, say, address: inject('temporalAddress') });

// Most of the time, they wait for leases to end.
describe.concurrent(
  'whatever happens to workers, nothing is repeated, lost, sent over budget or falsely reported',
  () => {
    test(
      'they are killed at every step of the send path, and while they recover',
      { timeout: TIMEOUT_MS },
      async () => {
        const { violations, counts, hits } = await scenarios.kill(run());
        expect(violations).toEqual([]);
        expect(counts).toMatchObject({ kills: 32, recoveryKills: 8, missed: 0 });
        expect(Object.keys(hits ?? {})).toHaveLength(faultPoints.length);
      },
    );

    test(
      'they are stopped for longer than a lease, and continue after others have taken over',
      async () => {
        const { violations, counts } = await scenarios.freeze(run());
        expect(violations).toEqual([]);
        expect(counts).toMatchObject({ freezes: 4, missed: 0 });
      },
      TIMEOUT_MS,
    );
  },
);
