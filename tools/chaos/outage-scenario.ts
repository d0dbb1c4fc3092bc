import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from '../../src/simulator/random.js';
import { keepWorker } from './kept-worker.js';
import { RECOVERY_MS, type Lane } from './lane.js';
import { count, judge, type ScenarioOptions, type ScenarioOutcome } from './scenario.js';
import { withScene } from './scene.js';

/** Time for connections to come back after an outage: clients wait up to 5 s between two tries. */
const AFTERMATH_MS = 6_000;

/** Breaks Temporal, or the way from the worker to Temporal, and repairs it. Returns what it did. */
export type Outage = (lane: Lane, random: Random) => Promise<string>;

/** Options of {@link outageScenario}. */
export interface OutageScenarioOptions extends ScenarioOptions {
  name: string;
  /** Address of Temporal for the worker. @default `address` */
  workerAddress?: string;
  outages: number;
  /** Follow-ups that are started with each outage. */
  load: number;
  outage: Outage;
  /** Pause between two outages. */
  quietMs: { min: number; max: number };
  /** Whether something may break at any time. @default false */
  alwaysFaulty?: boolean;
}

/** Starts follow-ups while something breaks and is repaired, again and again. */
export async function outageScenario(options: OutageScenarioOptions): Promise<ScenarioOutcome> {
  const { name, seed, outages, load, outage, quietMs, say } = options;
  return withScene({ ...options, lanes: 1 }, async ({ lanes, random, startedAtMs }) => {
    const [lane] = lanes;
    if (!lane) throw new Error('a scene has a lane');
    const counts: Record<string, number> = {};
    if (options.alwaysFaulty) lane.noteFault({ toMs: Number.POSITIVE_INFINITY });
    const worker = keepWorker(lane);
    try {
      for (let number = 0; number < outages; number++) {
        const starting = lane.start(load);
        await delay(random.between(0, 1_500));
        const fromMs = Date.now();
        const what = await outage(lane, random);
        lane.noteFault({ fromMs, toMs: Date.now() + AFTERMATH_MS });
        count(counts, what);
        say?.(`${lane.projectId}: ${what} for ${Date.now() - fromMs} ms`);
        await starting;
        await delay(random.between(quietMs.min, quietMs.max));
      }
      const endedByMs = Date.now() + RECOVERY_MS;
      await lane.collect(endedByMs + 10_000);
      counts['workerRestarts'] = worker.restarts;
      return await judge(name, lanes, { seed, say, startedAtMs, endedByMs, counts });
    } finally {
      await worker.stop();
    }
  });
}
