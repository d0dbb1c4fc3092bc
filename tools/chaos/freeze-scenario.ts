import { setTimeout as delay } from 'node:timers/promises';
import { faultPoints, type FaultPointName } from './fault-point-names.js';
import { RECOVERY_MS, SEND_START_TO_CLOSE_MS, type Lane } from './lane.js';
import { count, judge, type ScenarioOptions, type ScenarioOutcome } from './scenario.js';
import { withScene } from './scene.js';
import { comesInTime, killAll } from './wait.js';
import type { WorkerProcess } from './worker-process.js';

/** Long enough for the server to give the send to another worker. */
const FREEZE_MS = SEND_START_TO_CLOSE_MS + 5_000;

/** Time for a frozen process to do what it was about to do. */
const THAW_MS = 4_000;

/** Steps between a send's last check and its first byte. Only there may a frozen process still deliver. */
const WITHIN_THE_GAP: readonly FaultPointName[] = ['headers-writing'];

/**
 * Freezes a worker (SIGSTOP) in the middle of a send for longer than the send's lease and timeout. Another worker takes
 * over. Then the frozen worker goes on (SIGCONT). It must not send what the other has sent or given up.
 */
export async function freezeScenario(
  options: ScenarioOptions & { freezes: number; lanes: number },
): Promise<ScenarioOutcome> {
  const { seed, freezes, say } = options;
  return withScene({ ...options, name: 'freeze' }, async ({ lanes, random, startedAtMs }) => {
    const points = faultPoints.flatMap(({ name, seenBy }) => (seenBy === 'worker' ? [name] : []));
    const sending = points.slice(points.indexOf('activity-received'), points.indexOf('activity-completed') + 1);
    const offset = random.between(0, sending.length - 1);
    const counts = { freezes: 0, missed: 0, withinTheGap: 0 };
    const hits: Record<string, number> = {};
    const healthy = await Promise.all(
      lanes.map(async (lane, index) => {
        let rescuer: WorkerProcess | undefined;
        for (let number = index; number < freezes; number += lanes.length) {
          const point = sending[(offset + number * 5) % sending.length] ?? 'connected';
          await kill(lane, rescuer);
          const frozen = lane.startWorker({ point, hit: 1, signal: 'SIGSTOP' });
          await lane.start(2);
          const struck = await comesInTime(frozen.struck, frozen);
          const fromMs = Date.now();
          rescuer = lane.startWorker();
          if (struck) await delay(FREEZE_MS);
          frozen.kill('SIGCONT');
          lane.noteFault({ fromMs, toMs: Date.now() });
          await delay(THAW_MS);
          await kill(lane, frozen);
          counts[struck ? 'freezes' : 'missed']++;
          if (struck) count(hits, point);
          if (struck && WITHIN_THE_GAP.includes(point)) counts.withinTheGap++;
          say?.(`${lane.projectId}: frozen at ${point}${struck ? '' : ': missed'}`);
        }
        return rescuer ?? lane.startWorker();
      }),
    );
    const endedByMs = Date.now() + RECOVERY_MS;
    await Promise.all(lanes.map((lane) => lane.collect(endedByMs + 10_000)));
    await killAll(healthy);
    return judge('freeze', lanes, { seed, say, startedAtMs, endedByMs, counts, hits });
  });
}

async function kill(lane: Lane, worker: WorkerProcess | undefined): Promise<void> {
  if (!worker) return;
  await killAll([worker]);
  lane.noteFault();
}
