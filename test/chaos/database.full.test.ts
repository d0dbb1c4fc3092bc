import { expect, test } from 'vitest';
import { scenarios } from '../../tools/chaos/scenarios.js';
import { describeWith, findMissing } from '../support/requirements.js';

const missing = await findMissing(['postgres', 'temporal-server']);
const TIMEOUT_MS = 900_000;
const run = { seed: 1, kills: 0, scale: 1, say: () => undefined };

describeWith(missing)('with Temporal on PostgreSQL, nothing is repeated, lost or falsely reported', () => {
  test.concurrent(
    'while PostgreSQL stops, crashes and restarts',
    async () => {
      const { violations, counts } = await scenarios.postgres(run);
      expect(violations).toEqual([]);
      expect(counts['postgresAndServerKilled']).toBe(1);
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    'while the server fails one in a hundred of its own calls',
    async () => {
      const { violations, counts } = await scenarios['server-faults'](run);
      expect(violations).toEqual([]);
      expect(counts['followUps']).toBe(40);
    },
    TIMEOUT_MS,
  );
});
