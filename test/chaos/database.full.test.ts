import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type OutageOptions, playOutages } from '../../tools/chaos/network.js';
import { type PostgresRig, type PostgresRigOptions, startPostgresRig } from '../support/postgres-rig.js';
import { describeWith, findMissing } from '../support/requirements.js';

const missing = await findMissing(['postgres', 'temporal-server', 'oldest-temporal-server']);
const TIMEOUT_MS = 1_800_000;
const AWAY_MS = 2_000;

/** Plays outages on a Temporal server on PostgreSQL. Returns what happened how often. */
async function playOn(
  rigOptions: PostgresRigOptions,
  optionsOf: (rig: PostgresRig) => OutageOptions,
): Promise<Record<string, number>> {
  const rig = await startPostgresRig(rigOptions);
  try {
    const run = { seed: 1, scale: 1, address: rig.address };
    const { violations, counts } = await playOutages('database', run, optionsOf(rig));
    expect(violations).toEqual([]);
    // What a Temporal server logs when it breaks one of its own assertions.
    expect(await readFile(join(rig.directory, 'server.log'), 'utf8')).not.toMatch(/panic:|failed assertion:/);
    return counts;
  } finally {
    await rig.stop();
  }
}

const killServer = (rig: PostgresRig) => async () => {
  await rig.killServer();
  await delay(AWAY_MS);
  await rig.startServer();
};

const stopPostgres = (rig: PostgresRig, mode: 'fast' | 'immediate') => async () => {
  await rig.stopPostgres(mode);
  await delay(AWAY_MS);
  await rig.startPostgres();
};

describeWith(missing)('with Temporal on PostgreSQL, nothing is repeated, lost or falsely reported', () => {
  test.concurrent(
    'while PostgreSQL stops and crashes',
    async () => {
      const counts = await playOn({}, (rig) => {
        const [stopped, crashed] = [stopPostgres(rig, 'fast'), stopPostgres(rig, 'immediate')];
        return { outages: { stopped, crashed, 'server killed': killServer(rig) }, rounds: 2 };
      });
      expect(counts).toMatchObject({ stopped: 2, crashed: 2, 'server killed': 2, followUps: 30 });
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    'while the server fails one in a hundred of its own calls',
    async () => {
      const outages = { nothing: () => delay(4_000) };
      const counts = await playOn({ faults: 0.01 }, () => ({ outages, rounds: 8, alwaysFaulty: true }));
      expect(counts).toMatchObject({ followUps: 40 });
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    'while the oldest server is upgraded to the newest',
    async () => {
      const counts = await playOn({ serverAge: 'oldest' }, (rig) => ({
        outages: { killed: killServer(rig), upgraded: () => rig.upgradeServer(), 'killed again': killServer(rig) },
        rounds: 1,
      }));
      expect(counts).toMatchObject({ upgraded: 1, followUps: 15 });
    },
    TIMEOUT_MS,
  );
});
