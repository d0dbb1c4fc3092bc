import { expect, test } from 'vitest';
import { scenarios } from '../../tools/chaos/scenarios.js';
import { describeWith, findMissing } from '../support/requirements.js';

const missing = await findMissing(['postgres', 'temporal-server', 'oldest-temporal-server']);

describeWith(missing)('with Temporal on PostgreSQL, nothing is repeated, lost or falsely reported', () => {
  test('while the oldest server is upgraded to the newest and follow-ups run', async () => {
    const { violations, counts } = await scenarios.upgrade({ seed: 1, kills: 0, scale: 1, say: () => undefined });
    expect(violations).toEqual([]);
    expect(counts).toMatchObject({ 'upgradedFrom 1.29.1 to 1.32.0': 1, serverKilled: 2, followUps: 15 });
  }, 900_000);
});
