import { setTimeout as delay } from 'node:timers/promises';
import { startDevServer, type DevServer } from '../../src/dev-server/index.js';
import type { PostgresRig } from '../../test/support/postgres-rig.js';
import type { Outage } from './outage-scenario.js';

const LONGEST_OUTAGE_MS = 2_000;

const START_ATTEMPTS = 20;
const START_AGAIN_AFTER_MS = 500;

/** In one of this many outages the Temporal server dies too. */
const SERVER_DIES_EVERY = 4;

/** Kills the development server with SIGKILL and starts it again on the same port and database file. */
export function devServerOutage(first: DevServer, dbFile: string): { outage: Outage; stop: () => Promise<void> } {
  let server = first;
  return {
    outage: async (_lane, random) => {
      await server.kill();
      await delay(random.between(0, LONGEST_OUTAGE_MS));
      server = await startAgain(first.port, dbFile);
      return 'serverKilled';
    },
    stop: () => server.stop(),
  };
}

/** Tries several times, because an outgoing connection may hold the free port for a moment. */
async function startAgain(port: number, dbFile: string): Promise<DevServer> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await startDevServer({ env: process.env, port, args: ['--db-filename', dbFile] });
    } catch (error) {
      if (attempt === START_ATTEMPTS) throw error;
      await delay(START_AGAIN_AFTER_MS);
    }
  }
}

/** Stops PostgreSQL for up to 2 s, in order or as a crash does. Every fourth time it kills the server too. */
export function postgresOutage(rig: PostgresRig): Outage {
  let number = 0;
  return async (_lane, random) => {
    const isCrash = random.next() < 0.5;
    const dies = ++number % SERVER_DIES_EVERY === 0;
    await rig.stopPostgres(isCrash ? 'immediate' : 'fast');
    if (dies) await rig.killServer();
    await delay(random.between(0, LONGEST_OUTAGE_MS));
    await rig.startPostgres();
    if (dies) await rig.startServer();
    return dies ? 'postgresAndServerKilled' : isCrash ? 'postgresCrashed' : 'postgresStopped';
  };
}

/** Kills the server. The second time it replaces the server with the newest one instead. */
export function upgradeOutage(rig: PostgresRig): Outage {
  let number = 0;
  return async (_lane, random) => {
    if (++number === 2) {
      const from = await rig.serverVersion();
      await rig.upgradeServer();
      return `upgradedFrom ${from} to ${await rig.serverVersion()}`;
    }
    await rig.killServer();
    await delay(random.between(0, LONGEST_OUTAGE_MS));
    await rig.startServer();
    return 'serverKilled';
  };
}
