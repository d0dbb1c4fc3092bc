import { setTimeout as delay } from 'node:timers/promises';
import type { BatchHandle } from '../../src/client/index.js';
import type { BatchItem } from '../../src/contract/index.js';
import { check, type FollowUpRecord } from './checker.js';
import { contradictions } from '../../test/support/contradictions.js';
import { readSends } from './endings.js';
import type { Lane } from './lane.js';
import { promptOf } from './ledger-file.js';
import { count, type ScenarioOptions, type ScenarioOutcome } from './scenario.js';
import { withScene } from './scene.js';
import { killAll } from './wait.js';
import type { WorkerProcess } from './worker-process.js';

const BUDGET = { limit: 20, windowMs: 10_000 };
const WORKERS = 2;
/** Messages before the batch is held. */
const CANARY = 5;
/** The longest that a batch may take on two cores, with the recovery from the last kill. */
const LONGEST_MS = 1_800_000;

/** Options of {@link batchScenario}. */
export interface BatchScenarioOptions extends ScenarioOptions {
  items: number;
  projects: number;
  /** Time between two kills. Each kills one of the two workers. */
  killEveryMs: number;
  /** @default no limit */
  mostKills?: number;
}

/** Runs one batch over many projects, while its two workers are killed (SIGKILL) in turn, again and again. */
export async function batchScenario(options: BatchScenarioOptions): Promise<ScenarioOutcome> {
  const { seed, items, projects, killEveryMs, mostKills = Infinity, say } = options;
  return withScene({ ...options, name: 'batch', lanes: 1, budget: BUDGET }, async ({ oracle, lanes, startedAtMs }) => {
    const [lane] = lanes;
    if (!lane) throw new Error('a scene has a lane');
    const workers: WorkerProcess[] = Array.from({ length: WORKERS }, () => lane.startWorker());
    await Promise.all(workers.map((worker) => worker.ready));
    const inputs = Array.from({ length: items }, (_, index) => ({
      projectId: `${lane.projectId}-${index % projects}`,
      jobId: `job-${index}`,
      prompt: promptOf(`item-${index}`),
      poll: { initialInterval: '500ms', maxInterval: '2s' },
      settleTime: '5s',
      prLinkGrace: '0s',
    }));
    const brake = { canary: CANARY, maxOpen: 200 };
    const batch = await lane.followUps.startBatch({ id: lane.projectId, items: inputs, ...brake });
    const ended = new AbortController();
    const kills = killInTurns(lane, workers, { everyMs: killEveryMs, most: mostKills, ended: ended.signal });
    let sentWhileHeld: number;
    try {
      await untilHeld(batch);
      // Another kill, or two.
      await delay(killEveryMs);
      sentWhileHeld = (await oracle.arrivals()).length;
      await batch.continue();
      await batch.result({ signal: AbortSignal.timeout(LONGEST_MS) });
    } finally {
      ended.abort();
    }
    const counts: Record<string, number> = { kills: await kills, items };
    const followUps: FollowUpRecord[] = [];
    for await (const item of batch.list()) {
      followUps.push(await toRecord(lane, item));
      count(counts, item.status ?? item.error?.type ?? 'pending');
    }
    await killAll(workers);
    const arrivals = await oracle.arrivals();
    const endedByMs = Date.now();
    const violations = check({ ...BUDGET, followUps, arrivals, faults: lane.faults, endedByMs });
    if (sentWhileHeld !== CANARY) {
      violations.push({ kind: 'brake', subject: batch.batchId, detail: `${sentWhileHeld} messages, canary ${CANARY}` });
    }
    violations.push(...(await contradictions(lane.client, lane.taskQueue)));
    if (violations.length > 0) for (const log of lane.workerLogs()) say?.(log);
    return { name: 'batch', seed, durationMs: endedByMs - startedAtMs, counts, violations };
  });
}

/** Workers that are killed answer late. */
async function untilHeld(batch: BatchHandle): Promise<void> {
  while (!(await batch.status().catch(() => undefined))?.hold) await delay(500);
}

/** Kills a worker every `everyMs` and starts another in its place, until `ended`. Returns the number of kills. */
async function killInTurns(
  lane: Lane,
  workers: WorkerProcess[],
  { everyMs, most, ended }: { everyMs: number; most: number; ended: AbortSignal },
): Promise<number> {
  for (let kills = 0; ; kills++) {
    const isOver = await delay(everyMs, false, { signal: ended }).catch(() => true);
    const doomed = workers[kills % WORKERS];
    if (isOver || !doomed || kills >= most) return kills;
    const fromMs = Date.now();
    await killAll([doomed]);
    lane.noteFault({ fromMs });
    workers[kills % WORKERS] = lane.startWorker();
  }
}

/** How an item ended, according to the batch. */
async function toRecord({ client }: Lane, item: BatchItem): Promise<FollowUpRecord> {
  const { index, projectId, workflowId, status, error } = item;
  const record: FollowUpRecord = { marker: `item-${index}`, projectId, workflowId };
  const atMs = Date.now();
  if (status !== undefined) return { ...record, ending: { atMs, kind: 'result', delivered: 'yes' } };
  if (error === undefined) return record;
  const { delivered, type } = error;
  const ending = { atMs, kind: 'failed', delivered, type } as const;
  return { ...record, ending, ...(delivered === 'unknown' && { sends: await readSends(client, workflowId) }) };
}
