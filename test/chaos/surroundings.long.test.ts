import { describe, expect, inject, test } from 'vitest';
import { scenarios } from '../../tools/chaos/scenarios.js';

const TIMEOUT_MS = 900_000;
const say = () => undefined;
const run = () => ({ seed: 1, kills: 40, scale: 1, say, address: inject('temporalAddress') });

describe.concurrent('whatever happens around workers, nothing is repeated, lost or falsely reported', () => {
  test(
    'cancels, terminates, resets and the loss of the budget during sends',
    async () => {
      const { violations, counts } = await scenarios.intervention(run());
      expect(violations).toEqual([]);
      const each = { cancel: 2, terminate: 2, 'reset-workflow': 2, 'reset-activity': 2, 'restore-budget': 2 };
      expect(counts).toMatchObject({ ...each, missed: 0 });
    },
    TIMEOUT_MS,
  );

  test(
    'a network that cuts, swallows and delays calls, and loses the report of a send',
    async () => {
      const { violations, counts } = await scenarios.network(run());
      expect(violations).toEqual([]);
      expect(counts['completionLost']).toBe(1);
    },
    TIMEOUT_MS,
  );

  test(
    'a Temporal server that is killed and restarted',
    async () => {
      const { violations, counts } = await scenarios.server(run());
      expect(violations).toEqual([]);
      expect(counts['serverKilled']).toBe(3);
    },
    TIMEOUT_MS,
  );
});
