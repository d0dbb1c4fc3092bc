import { setTimeout as delay } from 'node:timers/promises';
import { projectBudgetWorkflowId } from '../../src/contract/index.js';
import type { FollowUpRecord } from './checker.js';
import { onActivities, resetWorkflow } from '../../test/support/buttons.js';
import { faultPoints, type FaultPointName } from './fault-point-names.js';
import { RECOVERY_MS, type Lane } from './lane.js';
import { count, judge, type ScenarioOptions, type ScenarioOutcome } from './scenario.js';
import { withScene } from './scene.js';
import { comesInTime, killAll } from './wait.js';
import type { WorkerProcess } from './worker-process.js';

/** What is done while the worker is stopped at a step of the send path. */
export const interventions = ['cancel', 'terminate', 'reset-workflow', 'reset-activity', 'restore-budget'] as const;
export type Intervention = (typeof interventions)[number];

/** How long a budget stays terminated. */
const BUDGET_STOPPED_MS = 1_000;

/** Options of {@link interventionScenario}. */
export interface InterventionScenarioOptions extends ScenarioOptions {
  /** How often each intervention happens, over all lanes. */
  rounds: number;
  lanes: number;
}

/**
 * Stops the worker (SIGSTOP) at every step of the send path, intervenes in the follow-ups or their budget on the
 * server, and lets the worker go on (SIGCONT). Each stop is short. So only the loss of the budget excuses a delivery
 * that remains unknown.
 */
export async function interventionScenario(options: InterventionScenarioOptions): Promise<ScenarioOutcome> {
  const { seed, rounds, say } = options;
  return withScene({ ...options, name: 'intervention' }, async ({ lanes, random, startedAtMs }) => {
    const points = faultPoints.flatMap(({ name, seenBy }) => (seenBy === 'worker' ? [name] : []));
    const offset = random.between(0, points.length - 1);
    // A prime step visits all points.
    const plans = Array.from({ length: rounds * interventions.length }, (_, number) => ({
      intervention: interventions[number % interventions.length] ?? 'cancel',
      point: points[(offset + number * 7) % points.length] ?? 'ask-sent',
    }));
    const counts: Record<string, number> = { missed: 0 };
    const hits: Record<string, number> = {};
    const healthy = await Promise.all(
      lanes.map(async (lane, index) => {
        let last: WorkerProcess | undefined;
        for (const plan of plans.filter((_, number) => number % lanes.length === index)) {
          // It shuts down in order: a kill would excuse a delivery that remains unknown.
          await last?.leave();
          const { worker, struck } = await intervene(lane, plan);
          last = worker;
          count(counts, struck ? plan.intervention : 'missed');
          if (struck) count(hits, plan.point);
          say?.(`${lane.projectId}: ${plan.intervention} at ${plan.point}${struck ? '' : ': missed'}`);
        }
        return last ?? lane.startWorker();
      }),
    );
    const endedByMs = Date.now() + RECOVERY_MS;
    await Promise.all(lanes.map((lane) => lane.collect(endedByMs + 10_000)));
    await killAll(healthy);
    return judge('intervention', lanes, { seed, say, startedAtMs, endedByMs, counts, hits });
  });
}

async function intervene(
  lane: Lane,
  { point, intervention }: { point: FaultPointName; intervention: Intervention },
): Promise<{ worker: WorkerProcess; struck: boolean }> {
  const worker = lane.startWorker({ point, hit: 1, signal: 'SIGSTOP' });
  const records = await lane.start(2);
  const struck = await comesInTime(worker.struck, worker);
  if (struck && intervention !== 'restore-budget') {
    await Promise.all(records.map((record) => change(lane, record, intervention)));
  }
  if (struck && intervention === 'restore-budget') await loseBudget(lane, worker);
  worker.kill('SIGCONT');
  // The effects of the intervention begin before the worker is told to leave.
  await delay(lane.random.between(0, 1_000));
  return { worker, struck };
}

/** Intervenes in one follow-up. Those of one plan are at different steps, so it may come too early or too late. */
async function change(
  lane: Lane,
  { workflowId }: FollowUpRecord,
  intervention: Exclude<Intervention, 'restore-budget'>,
): Promise<void> {
  const handle = lane.client.workflow.getHandle(workflowId);
  try {
    if (intervention === 'cancel') await handle.cancel();
    if (intervention === 'terminate') await handle.terminate('chaos');
    if (intervention === 'reset-workflow') {
      // Nobody may know what became of a send of the run before.
      lane.noteFault();
      await resetWorkflow(
        lane.client,
        workflowId,
        (tasks) => tasks[lane.random.between(0, Math.max(0, tasks.length - 1))],
      );
    }
    if (intervention === 'reset-activity') await onActivities(lane.client, workflowId, 'reset');
  } catch (error) {
    const { status } = await handle.describe();
    if (status.name === 'RUNNING') throw error;
  }
}

/** Terminates the budget and restores its state. */
async function loseBudget(lane: Lane, worker: WorkerProcess): Promise<void> {
  const budget = lane.client.workflow.getHandle(projectBudgetWorkflowId(lane.projectId));
  const fromMs = Date.now();
  const isThere = await budget.terminate('chaos').then(
    () => true,
    () => false,
  );
  worker.kill('SIGCONT');
  if (!isThere) return;
  await delay(BUDGET_STOPPED_MS);
  await lane.followUps.budget(lane.projectId).restore();
  lane.noteFault({ fromMs, toMs: Date.now() });
}
