import { setTimeout as delay } from 'node:timers/promises';
import type { Violation } from './checker.js';
import { RECOVERY_MS, SEND_START_TO_CLOSE_MS, type Lane } from './lane.js';
import { judge, type ScenarioOptions, type ScenarioOutcome } from './scenario.js';
import { withScene } from './scene.js';
import { killAll } from './wait.js';
import type { WorkerProcess } from './worker-process.js';

/** Enough slots for many sends under way at once. */
const BUDGET = { limit: 60, windowMs: 10_000 };

/** A worker ends itself with an error after a grace as long as a send may take. A busy machine gets a minute more. */
const EXIT_WITHIN_MS = SEND_START_TO_CLOSE_MS + 60_000;

const BETWEEN_RESTARTS_MS = { min: 500, max: 3_000 };

/** Options of {@link restartScenario}. */
export interface RestartScenarioOptions extends ScenarioOptions {
  /** Follow-ups under way at each restart: a new one starts for each that has ended. */
  underWay: number;
  restarts: number;
}

/**
 * Restarts workers as a rolling deployment does, with many follow-ups under way: when the next worker is ready, the
 * previous one is told to end (SIGTERM). Nothing here excuses a delivery that remains unknown.
 */
export async function restartScenario(options: RestartScenarioOptions): Promise<ScenarioOutcome> {
  const { seed, underWay, restarts, say } = options;
  const service = { latency: { minMs: 50, maxMs: 1_200 } };
  const scene = { ...options, name: 'restart', lanes: 1, service, budget: BUDGET };
  return withScene(scene, async ({ lanes, random, startedAtMs }) => {
    const [lane] = lanes;
    if (!lane) throw new Error('a scene has a lane');
    let current = lane.startWorker();
    const leaving: Promise<Violation[]>[] = [];
    await current.ready;
    const counts = { restarts, leastUnderWay: underWay, slowestExitMs: 0 };
    await lane.start(underWay);
    for (let number = 0; number < restarts; number++) {
      const next = lane.startWorker();
      await next.ready;
      await lane.start(Math.max(0, underWay - (await open(lane))));
      await delay(random.between(BETWEEN_RESTARTS_MS.min, BETWEEN_RESTARTS_MS.max));
      counts.leastUnderWay = Math.min(counts.leastUnderWay, await open(lane));
      const toldAtMs = performance.now();
      void current.exited.then(() => {
        counts.slowestExitMs = Math.max(counts.slowestExitMs, Math.round(performance.now() - toldAtMs));
      });
      leaving.push(leave(lane, current, say));
      say?.(`${lane.projectId}: restart ${number + 1}`);
      current = next;
    }
    const unclean = (await Promise.all(leaving)).flat();
    const endedByMs = Date.now() + RECOVERY_MS;
    await lane.collect(endedByMs + 10_000);
    await killAll([current]);
    const outcome = await judge('restart', lanes, { seed, say, startedAtMs, endedByMs, counts });
    return { ...outcome, violations: [...outcome.violations, ...unclean] };
  });
}

/** The number of follow-ups that run. */
async function open({ client, taskQueue }: Lane): Promise<number> {
  const query = `TaskQueue = '${taskQueue}' AND WorkflowType = 'followUp' AND ExecutionStatus = 'Running'`;
  return (await client.workflow.count(query)).count;
}

async function leave(lane: Lane, worker: WorkerProcess, say?: ScenarioOptions['say']): Promise<Violation[]> {
  worker.kill('SIGTERM');
  const code = await Promise.race([worker.exited, delay(EXIT_WITHIN_MS, 'late' as const, { ref: false })]);
  if (code === 0) return [];
  say?.(worker.log());
  await killAll([worker]);
  return [{ kind: 'unclean', subject: lane.projectId, detail: `it ended with ${code}: ${worker.log().slice(-500)}` }];
}
