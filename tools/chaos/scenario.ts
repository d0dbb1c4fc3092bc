import { createRandom, type Random } from '../../src/simulator/random.js';
import { check, type Violation } from './checker.js';
import { contradictions } from '../../test/support/contradictions.js';
import type { Lane } from './lane.js';

/** Options of every scenario. */
export interface ScenarioOptions {
  seed: number;
  /** `host:port` of a Temporal server to use. */
  address: string;
  /** Unique among runs on the same server. @default random */
  runId?: string;
  /** Told what happens. */
  say?: ((line: string) => void) | undefined;
}

/** What a scenario found. */
export interface ScenarioOutcome {
  name: string;
  seed: number;
  durationMs: number;
  /** How often each thing was done, and how follow-ups ended. */
  counts: Record<string, number>;
  /** How often each step of the send path was struck. */
  hits?: Record<string, number>;
  /** Empty if nothing is wrong. */
  violations: Violation[];
}

/** The scenario's own random numbers, which do not depend on other scenarios. */
export function randomOf(name: string, seed: number): Random {
  return createRandom(seed).fork(name);
}

/** Adds one to a count. */
export function count(counts: Record<string, number>, what: string): void {
  counts[what] = (counts[what] ?? 0) + 1;
}

/** Checks the lanes of a run, after all of them have collected their endings. */
export async function judge(
  name: string,
  lanes: readonly Lane[],
  run: Pick<ScenarioOptions, 'seed' | 'say'> & {
    startedAtMs: number;
    endedByMs: number;
    counts: Record<string, number>;
    hits?: Record<string, number>;
  },
): Promise<ScenarioOutcome> {
  const arrivals = (await Promise.all([...new Set(lanes.map(({ oracle }) => oracle))].map((each) => each.arrivals())))
    .flat()
    .filter(({ projectId }) => lanes.some((lane) => lane.projectId === projectId));
  const violations = lanes.flatMap((lane) => {
    const found = check({
      ...lane.budget,
      followUps: lane.records,
      arrivals: arrivals.filter(({ projectId }) => projectId === lane.projectId),
      faults: lane.faults,
      endedByMs: run.endedByMs,
    });
    if (found.length > 0) for (const log of lane.workerLogs()) run.say?.(log);
    return found;
  });
  for (const { client, taskQueue } of lanes) violations.push(...(await contradictions(client, taskQueue)));
  const records = lanes.flatMap((lane) => lane.records);
  const told = (word: string) =>
    records.filter(({ ending }) => ending?.delivered === word && ending.kind !== 'terminated');
  const arrived = new Set(arrivals.map(({ marker }) => marker));
  return {
    name,
    seed: run.seed,
    durationMs: Date.now() - run.startedAtMs,
    counts: {
      ...run.counts,
      followUps: records.length,
      arrived: arrivals.length,
      yes: told('yes').length,
      no: told('no').length,
      unknown: told('unknown').length,
      unknownButArrived: told('unknown').filter(({ marker }) => arrived.has(marker)).length,
    },
    ...(run.hits && { hits: run.hits }),
    violations,
  };
}
