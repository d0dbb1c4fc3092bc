import type { Random } from '../../src/simulator/random.js';
import { faultPoints, type FaultPoint } from './fault-point-names.js';
import { RECOVERY_MS, type Lane } from './lane.js';
import type { TlsFiles } from './oracle-process.js';
import { count, judge, type ScenarioOptions, type ScenarioOutcome } from './scenario.js';
import { withScene } from './scene.js';
import { comesInTime, killAll } from './wait.js';

/** How often a plan is tried that misses. Each try has a new worker. */
const TRIES = 3;

/** Points that the recovery from earlier kills reaches with nothing new to send. */
const RECOVERY_POINTS = faultPoints.filter(({ name }) =>
  ['finish-sending', 'finish-sent', 'end-completing', 'end-completed'].includes(name),
);

interface KillPlan {
  point: FaultPoint;
  hit: number;
  /** Follow-ups that are started for it. 0: it strikes the recovery from earlier kills. */
  load: number;
}

/** Options of {@link killScenario}. */
export interface KillScenarioOptions extends ScenarioOptions {
  /** Kills over all lanes. */
  kills: number;
  /** How many of them strike the recovery from the others. */
  recoveryKills: number;
  lanes: number;
  /** @default "kill" */
  name?: string;
  /** Further settings of the workers. */
  env?: Readonly<Record<string, string>>;
  /** Certificate of the service. Without one the service has no TLS. */
  tls?: TlsFiles;
}

/**
 * Kills the worker with SIGKILL at every step of the send path and starts it again, many times. Several lanes do so at
 * once. The follow-ups of one kill recover while the next ones start. The last kills strike while there is nothing but
 * recovery.
 */
export async function killScenario(options: KillScenarioOptions): Promise<ScenarioOutcome> {
  const { seed, kills, recoveryKills, say, name = 'kill' } = options;
  return withScene({ ...options, name }, async ({ lanes, random, startedAtMs }) => {
    const plans = makePlans(kills, recoveryKills, random);
    const counts = { kills: 0, recoveryKills: 0, missed: 0 };
    const hits: Record<string, number> = {};
    const healthy = await Promise.all(
      lanes.map(async (lane, index) => {
        for (const plan of plans.filter((_, number) => number % lanes.length === index)) {
          let struck = false;
          for (let tries = 0; !struck && tries < TRIES; tries++) {
            struck = await strike(lane, plan);
            say?.(`${lane.projectId}: killed at ${plan.point.name}, hit ${plan.hit}${struck ? '' : ': missed'}`);
          }
          if (struck) count(hits, plan.point.name);
          counts[struck ? (plan.load > 0 ? 'kills' : 'recoveryKills') : 'missed']++;
        }
        return lane.startWorker();
      }),
    );
    const endedByMs = Date.now() + RECOVERY_MS;
    await Promise.all(lanes.map((lane) => lane.collect(endedByMs + 10_000)));
    await killAll(healthy);
    return judge(name, lanes, { seed, say, startedAtMs, endedByMs, counts, hits });
  });
}

function makePlans(kills: number, recoveryKills: number, random: Random): KillPlan[] {
  const plans: KillPlan[] = [];
  while (plans.length < kills - recoveryKills) {
    // Each round has every point once, in an order of its own.
    const round = faultPoints.map((point) => ({ point, order: random.next() }));
    for (const { point } of round.sort((a, b) => a.order - b.order)) {
      const hit = random.between(1, 3);
      plans.push({ point, hit, load: hit + random.between(0, 2) });
    }
  }
  plans.length = kills - recoveryKills;
  for (let each = 0; each < recoveryKills; each++) {
    const point = RECOVERY_POINTS[random.between(0, RECOVERY_POINTS.length - 1)];
    if (point) plans.push({ point, hit: 1, load: 0 });
  }
  return plans;
}

/** Starts a worker and kills it. Returns whether it died where it should. */
async function strike(lane: Lane, { point, hit, load }: KillPlan): Promise<boolean> {
  const hold = point.seenBy === 'service' ? lane.oracle.hold(lane.projectId, point.name, hit) : undefined;
  const worker =
    point.seenBy === 'service' ? lane.startWorker() : lane.startWorker({ point: point.name, hit, signal: 'SIGKILL' });
  await lane.start(load);
  const struck = await comesInTime(hold?.reached ?? worker.struck, worker);
  await killAll([worker]);
  lane.noteFault();
  hold?.release();
  return struck;
}
