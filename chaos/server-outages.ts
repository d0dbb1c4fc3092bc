import { setTimeout as delay } from 'node:timers/promises';
import { startDevServer, type DevServer } from '../src/embedded/dev-server.js';
import type { PostgresRig } from '../test/support/postgres-rig.js';
import type { Outage } from './outage-scenario.js';

const LONGEST_OUTAGE_MS = 2_000;

/** Every that many times the Temporal server dies, too. */
const SERVER_DIES_EVERY = 4;

/** Kills the development server with SIGKILL and starts it again on the same port and database file. */
export function devServerOutage(first: DevServer, dbFile: string): { outage: Outage; stop: () => Promise<void> } {
  let server = first;
  return {
    outage: async (_lane, random) => {
      await server.kill();
      await delay(random.between(0, LONGEST_OUTAGE_MS));
      server = await startDevServer({ env: process.env, port: first.port, dbFile });
      return 'serverKilled';
    },
    stop: () => server.stop(),
  };
}

/** Stops PostgreSQL for up to 2 s, in an orderly way or as by a crash; every fourth time the server is killed, too. */
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
