import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startDevServer } from '../../src/dev-server/index.js';
import { startPostgresRig, type PostgresRig, type PostgresRigOptions } from '../../test/support/postgres-rig.js';
import { batchScenario } from './batch-scenario.js';
import type { Violation } from './checker.js';
import { freezeScenario } from './freeze-scenario.js';
import { interventionScenario } from './intervention-scenario.js';
import { killScenario } from './kill-scenario.js';
import { operatorScenario } from './operator-scenario.js';
import { outageScenario } from './outage-scenario.js';
import { proxyOutage } from './proxy-outage.js';
import { restartScenario } from './restart-scenario.js';
import { devServerOutage, postgresOutage, upgradeOutage } from './server-outages.js';
import { startTcpProxy } from '../../test/support/tcp-proxy.js';
import type { ScenarioOptions, ScenarioOutcome } from './scenario.js';

/** The size and the seed of a run. */
export interface RunOptions {
  seed: number;
  /** Kills of scenario `kill`. */
  kills: number;
  /** Size of the other scenarios. 1 is the short form. */
  scale: number;
  say: (line: string) => void;
  /** `host:port` of a development server, for scenarios that leave the server alone. @default one of its own */
  address?: string | undefined;
}

const tlsFile = (name: string) => fileURLToPath(new URL(`../test/agent-jobs/tls/${name}`, import.meta.url));

/** The tests' certificate for `localhost`. */
const TLS = { key: tlsFile('server.key'), cert: tlsFile('server.pem') };

/** Lanes that run at once. Starting that many workers together keeps two cores busy. */
const LANES = 6;

/** Every scenario, at a size of its own. */
export const scenarios = {
  kill: ({ kills, ...run }) =>
    onDevServer(run, (options) =>
      killScenario({ ...options, kills, recoveryKills: Math.round(kills / 5), lanes: LANES }),
    ),
  'kill-tls': ({ scale, ...run }) =>
    onDevServer(run, (options) =>
      killScenario({
        ...options,
        kills: 6 * scale,
        recoveryKills: 0,
        lanes: LANES,
        name: 'kill-tls',
        tls: TLS,
        env: { NODE_EXTRA_CA_CERTS: tlsFile('ca.pem') },
      }),
    ),
  'kill-cold': ({ scale, ...run }) =>
    onDevServer(
      run,
      (options) =>
        killScenario({
          ...options,
          kills: 6 * scale,
          recoveryKills: scale,
          lanes: LANES,
          name: 'kill-cold',
          env: { FOLLOW_UP_CACHED_WORKFLOWS: '1' },
        }),
      ['--dynamic-config-value', 'limit.historyCount.suggestContinueAsNew=100'],
    ),
  freeze: ({ scale, ...run }) =>
    onDevServer(run, (options) => freezeScenario({ ...options, freezes: 4 * scale, lanes: Math.min(4 * scale, 10) })),
  intervention: ({ scale, ...run }) =>
    onDevServer(run, (options) => interventionScenario({ ...options, rounds: 2 * scale, lanes: LANES })),
  operator: ({ scale, ...run }) =>
    onDevServer(run, (options) =>
      operatorScenario({ ...options, lanes: Math.min(LANES, 2 * scale), presses: 15 * scale, items: 12 }),
    ),
  restart: ({ scale, ...run }) =>
    onDevServer(run, (options) =>
      restartScenario({ ...options, underWay: Math.min(200, 60 * scale), restarts: 3 * scale }),
    ),
  batch: ({ scale, ...run }) =>
    onDevServer(run, (options) =>
      batchScenario({
        ...options,
        items: 200 * scale,
        projects: scale > 1 ? 4 : 8,
        ...(scale > 1 ? { killEveryMs: 30_000 } : { killEveryMs: 10_000, mostKills: 4 }),
      }),
    ),
  network: ({ scale, ...run }) =>
    onDevServer(run, async (options) => {
      const proxy = await startTcpProxy(options.address);
      try {
        return await outageScenario({
          ...options,
          name: 'network',
          workerAddress: proxy.address,
          outages: 5 * scale,
          load: 3,
          outage: proxyOutage(proxy, scale > 1 ? 30_000 : 6_000),
          quietMs: { min: 0, max: 4_000 },
        });
      } finally {
        await proxy.close();
      }
    }),
  server: async ({ scale, seed, say }) => {
    const directory = await mkdtemp(join(tmpdir(), 'chaos-server-'));
    const dbFile = join(directory, 'temporal.db');
    const server = await startDevServer({ env: process.env, args: ['--db-filename', dbFile] });
    const { outage, stop } = devServerOutage(server, dbFile);
    try {
      const quietMs = { min: 3_000, max: 8_000 };
      const { address } = server;
      return await outageScenario({ seed, say, address, name: 'server', outages: 3 * scale, load: 5, outage, quietMs });
    } finally {
      await stop();
      await rm(directory, { recursive: true, force: true });
    }
  },
  postgres: ({ scale, ...run }) =>
    onPostgres(run, {}, (options, rig) =>
      outageScenario({
        ...options,
        name: 'postgres',
        outages: 6 * scale,
        load: 5,
        outage: postgresOutage(rig),
        quietMs: { min: 5_000, max: 10_000 },
      }),
    ),
  upgrade: ({ scale, ...run }) =>
    onPostgres(run, { serverAge: 'oldest' }, (options, rig) =>
      outageScenario({
        ...options,
        name: 'upgrade',
        outages: 2 + scale,
        load: 5,
        outage: upgradeOutage(rig),
        quietMs: { min: 2_000, max: 5_000 },
      }),
    ),
  'server-faults': ({ scale, ...run }) =>
    onPostgres(run, { faults: 0.01 }, (options) =>
      outageScenario({
        ...options,
        name: 'server-faults',
        outages: 4 * scale,
        load: 10,
        // The server breaks its own calls all the time. Nothing else has to happen.
        outage: async () => 'rounds',
        quietMs: { min: 4_000, max: 8_000 },
        alwaysFaulty: true,
      }),
    ),
} as const satisfies Record<string, (run: RunOptions) => Promise<ScenarioOutcome>>;

/** Name of a scenario. */
export type ScenarioName = keyof typeof scenarios;

/** Plays on the given development server, or on one of its own, which is in memory. */
async function onDevServer(
  { seed, say, address }: Pick<RunOptions, 'seed' | 'say' | 'address'>,
  play: (options: ScenarioOptions) => Promise<ScenarioOutcome>,
  moreArgs: readonly string[] = [],
): Promise<ScenarioOutcome> {
  if (address !== undefined) return play({ seed, say, address });
  const args = ['--dynamic-config-value', 'frontend.WorkflowPauseEnabled=true', ...moreArgs];
  const server = await startDevServer({ env: process.env, args });
  try {
    return await play({ seed, say, address: server.address });
  } finally {
    await server.stop();
  }
}

/** What a Temporal server logs when it breaks one of its own assertions. */
const BROKEN = /panic:|failed assertion:/;

/** Plays on a Temporal server on PostgreSQL, and searches the server's log afterwards. */
async function onPostgres(
  { seed, say }: Pick<RunOptions, 'seed' | 'say'>,
  rigOptions: Pick<PostgresRigOptions, 'faults' | 'serverAge'>,
  play: (options: ScenarioOptions, rig: PostgresRig) => Promise<ScenarioOutcome>,
): Promise<ScenarioOutcome> {
  const rig = await startPostgresRig({ ...rigOptions, onProgress: say });
  try {
    const outcome = await play({ seed, say, address: rig.address }, rig);
    const log = await readFile(join(rig.directory, 'server.log'), 'utf8');
    const broken = log.split('\n').filter((line) => BROKEN.test(line));
    const violations = broken.map((detail): Violation => ({ kind: 'broken', subject: outcome.name, detail }));
    return { ...outcome, violations: [...outcome.violations, ...violations] };
  } finally {
    await rig.stop();
  }
}
