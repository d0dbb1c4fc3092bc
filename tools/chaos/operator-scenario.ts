import { setTimeout as delay } from 'node:timers/promises';
import {
  batchItemKey,
  followUpBatchWorkflowId,
  followUpWorkflowId,
  parseFollowUpWorkflowId,
  projectBudgetWorkflowId,
} from '../../src/contract/index.js';
import { toExecutionStatus } from '../../src/client/temporal.js';
import {
  deleteWorkflow,
  onActivities,
  pauseWorkflow,
  resetWorkflow,
  sendNonsense,
  unpauseWorkflow,
  type ResetPoint,
} from '../../test/support/buttons.js';
import { check, type FollowUpRecord, type Violation } from './checker.js';
import { isPausedInTask, queryOf } from '../../test/support/contradictions.js';
import { whereTheyStand } from './endings.js';
import { keepWorker } from './kept-worker.js';
import { RECOVERY_MS, type Lane } from './lane.js';
import { promptOf } from './ledger-file.js';
import { count, judge, type ScenarioOptions, type ScenarioOutcome } from './scenario.js';
import { withScene } from './scene.js';

/** What an operator does to a workflow. */
const buttons = [
  'cancel',
  'terminate',
  'reset',
  'pause',
  'nonsense',
  'pause-activity',
  'reset-activity',
  'reset-heartbeats',
  'delete',
] as const;
type Button = (typeof buttons)[number];

const targets = ['follow-up', 'budget', 'batch', 'part'] as const;
type Target = (typeof targets)[number];

/** A batch that is terminated or deleted has no result to check. */
const NOT_PRESSED: Partial<Record<Target, readonly Button[]>> = {
  batch: ['terminate', 'cancel', 'delete', 'pause-activity', 'reset-activity', 'reset-heartbeats'],
  part: ['delete'],
  budget: ['pause-activity', 'reset-activity', 'reset-heartbeats'],
};

/** A part that is terminated is started again three times. */
const MOST_TERMINATED_PARTS = 2;

/** How long something stays paused, or a budget stays stopped. */
const HELD_MS = { min: 200, max: 4_000 };
const BETWEEN_PRESSES_MS = { min: 100, max: 1_500 };

const SIGNALS: Readonly<Record<Target, readonly string[]>> = {
  'follow-up': ['wake', 'pollNow', 'budgetAnswer'],
  budget: ['tell'],
  batch: ['partReport'],
  part: ['partOrder', 'followUpEnded'],
};

/** Options of {@link operatorScenario}. */
export interface OperatorScenarioOptions extends ScenarioOptions {
  lanes: number;
  /** How many buttons are pressed in each lane. */
  presses: number;
  /** Items of each lane's batch. */
  items: number;
}

/**
 * An operator presses Temporal's buttons at random on follow-ups, their budget, a batch and its part, while messages
 * are sent. What was paused is unpaused, and a stopped budget is restored. Nothing else is repaired.
 */
export async function operatorScenario(options: OperatorScenarioOptions): Promise<ScenarioOutcome> {
  const { seed, presses, items, say } = options;
  return withScene({ ...options, name: 'operator' }, async ({ oracle, lanes, startedAtMs }) => {
    const counts: Record<string, number> = {};
    const workers = lanes.map((lane) => keepWorker(lane));
    await Promise.all(
      lanes.map(async (lane) => {
        const { itemIds, partId } = await startBatch(lane, items);
        let terminatedParts = 0;
        for (let press = 0; press < presses; press++) {
          if (press % 3 === 0) await lane.start(1);
          const target = pick(lane, targets);
          const button = pick(
            lane,
            buttons.filter((each) => !NOT_PRESSED[target]?.includes(each)),
          );
          if (target === 'part' && button === 'terminate' && ++terminatedParts > MOST_TERMINATED_PARTS) continue;
          const workflowId = target === 'part' ? partId : workflowIdOf(lane, target, itemIds);
          const isPressed = await pressButton(lane, target, workflowId, button);
          count(counts, isPressed ? `${button} ${target}` : 'came too late');
          say?.(`${button} ${workflowId}${isPressed ? '' : ': too late'}`);
          await delay(lane.random.between(BETWEEN_PRESSES_MS.min, BETWEEN_PRESSES_MS.max));
        }
      }),
    );
    const endedByMs = Date.now() + RECOVERY_MS;
    const unfinished: Violation[] = [];
    const words = await Promise.all(
      lanes.map(async (lane) => {
        const open = await awaitBatch(lane);
        if (open) unfinished.push(open);
        const told = open ? [] : await takeItems(lane);
        await lane.collect(endedByMs + 10_000);
        return told;
      }),
    );
    await Promise.all(workers.map((worker) => worker.stop()));
    const outcome = await judge('operator', lanes, { seed, say, startedAtMs, endedByMs, counts });
    const told = words.flat();
    const markers = new Set(told.map(({ marker }) => marker));
    const arrivals = (await oracle.arrivals()).filter(({ marker }) => markers.has(marker));
    const untrue = check({ followUps: told, arrivals, faults: [], endedByMs, limit: Infinity, windowMs: 1 });
    return { ...outcome, violations: [...unfinished, ...outcome.violations, ...untrue] };
  });
}

async function startBatch(lane: Lane, count: number): Promise<{ itemIds: string[]; partId: string }> {
  const { projectId } = lane;
  const items = Array.from({ length: count }, (_, index) => ({
    projectId,
    jobId: `item-${index}`,
    prompt: promptOf(`${projectId}:item-${index}`),
    poll: { initialInterval: '200ms', maxInterval: '2s' },
    settleTime: '3s',
    prLinkGrace: '0s',
  }));
  const batch = await lane.followUps.startBatch({ id: projectId, items, maxOpen: Math.ceil(count / 2) });
  const itemIds = items.map(({ jobId }, index) =>
    followUpWorkflowId({ projectId, jobId, key: batchItemKey(projectId, index) }),
  );
  for (;;) {
    const [partId] = await batch.parts();
    if (partId !== undefined) return { itemIds, partId };
    await delay(200);
  }
}

/** Waits for the end of a lane's batch. Returns what is wrong if it does not end in time. */
async function awaitBatch({ followUps, projectId, client, taskQueue }: Lane): Promise<Violation | undefined> {
  const signal = AbortSignal.timeout(RECOVERY_MS);
  try {
    await followUps.batch(projectId).result({ signal });
    return undefined;
  } catch (error) {
    if (!signal.aborted) throw error;
    const subject = followUpBatchWorkflowId({ batchId: projectId });
    return { kind: 'unfinished', subject, detail: await whereTheyStand(client, queryOf(taskQueue)) };
  }
}

/** Whether a workflow has completed its first task. */
async function hasBegun({ client }: Lane, workflowId: string): Promise<boolean> {
  const { events } = await client.workflow.getHandle(workflowId).fetchHistory();
  return Boolean(events?.some((event) => event.workflowTaskCompletedEventAttributes));
}

/** If a pause took a task from its queue, resets the workflow. A budget that is reset is restored by its worker. */
async function resetAfterPause({ client }: Lane, workflowId: string): Promise<void> {
  const { events } = await client.workflow.getHandle(workflowId).fetchHistory();
  if (events?.some(isPausedInTask)) await resetWorkflow(client, workflowId, 'last');
}

/** The items of a lane's batch, according to the batch. Each item that was started becomes a record of the lane. */
async function takeItems(lane: Lane): Promise<FollowUpRecord[]> {
  const words: FollowUpRecord[] = [];
  for await (const { index, workflowId, error } of lane.followUps.batch(lane.projectId).list()) {
    const record = { marker: `${lane.projectId}:item-${index}`, projectId: lane.projectId, workflowId };
    const isThere = await lane.client.workflow
      .getHandle(workflowId)
      .describe()
      .then(
        () => true,
        () => false,
      );
    if (isThere) recordOf(lane, workflowId);
    const delivered = error?.delivered ?? 'yes';
    // The follow-up itself says why a delivery is unknown.
    const kind = delivered === 'yes' ? 'result' : delivered === 'no' ? 'failed' : 'terminated';
    words.push({ ...record, ending: { atMs: Date.now(), kind, delivered } });
  }
  return words;
}

/** The record of a follow-up of a lane. The record of an item is made when it is first needed. */
function recordOf({ records, projectId }: Lane, workflowId: string): FollowUpRecord {
  const known = records.find((each) => each.workflowId === workflowId);
  if (known) return known;
  const record = { marker: `${projectId}:${parseFollowUpWorkflowId(workflowId)?.jobId}`, projectId, workflowId };
  records.push(record);
  return record;
}

function workflowIdOf(lane: Lane, target: Exclude<Target, 'part'>, itemIds: readonly string[]): string {
  const { projectId } = lane;
  if (target === 'budget') return projectBudgetWorkflowId(projectId);
  if (target === 'batch') return followUpBatchWorkflowId({ batchId: projectId });
  return pick(lane, [...itemIds, ...lane.records.map(({ workflowId }) => workflowId)]);
}

/** Presses a button. Returns whether there was something to press it on. */
async function pressButton(lane: Lane, target: Target, workflowId: string, button: Button): Promise<boolean> {
  const { client, random } = lane;
  const handle = client.workflow.getHandle(workflowId);
  const fromMs = Date.now();
  const held = () => delay(random.between(HELD_MS.min, HELD_MS.max));
  const statusNow = () =>
    handle.describe().then(
      ({ status }) => status.name,
      () => undefined,
    );
  // It has not started yet, or has been deleted. Asked after a failed press, it may have started by then.
  if ((await statusNow()) === undefined) return false;
  try {
    switch (button) {
      case 'cancel':
        await handle.cancel();
        break;
      case 'terminate':
        await handle.terminate('chaos');
        if (target === 'budget') {
          await held();
          await lane.followUps.budget(lane.projectId).restore();
        }
        break;
      case 'reset':
        await resetWorkflow(client, workflowId, pickPoint(lane));
        break;
      case 'pause':
        // A workflow that is paused before its first task can only be terminated.
        if (!(await hasBegun(lane, workflowId))) return false;
        await pauseWorkflow(client, workflowId);
        await held();
        await unpauseWorkflow(client, workflowId);
        await resetAfterPause(lane, workflowId);
        break;
      case 'nonsense':
        await sendNonsense(client, workflowId, SIGNALS[target]);
        break;
      case 'pause-activity': {
        const paused = await onActivities(client, workflowId, 'pause');
        await held();
        await onActivities(client, workflowId, 'unpause');
        if (paused === 0) return false;
        break;
      }
      case 'reset-activity':
      case 'reset-heartbeats': {
        const what = button === 'reset-activity' ? 'reset' : button;
        if ((await onActivities(client, workflowId, what)) === 0) return false;
        break;
      }
      case 'delete': {
        if (target === 'budget') {
          await deleteWorkflow(client, workflowId);
          break;
        }
        // Deleting a running follow-up would terminate it, and its end could not be read.
        if (toExecutionStatus((await handle.describe()).status.name) === 'running') return false;
        await lane.takeEnding(recordOf(lane, workflowId), Date.now() + RECOVERY_MS);
        await deleteWorkflow(client, workflowId);
        break;
      }
    }
    // Nobody may know any more how messages under way ended.
    if (target === 'budget' || (target === 'follow-up' && button === 'reset')) {
      lane.noteFault({ fromMs, toMs: Date.now() + 1_000 });
    }
    return true;
  } catch (error) {
    const status = await statusNow();
    // It has ended, or was deleted, in the meantime.
    if (status !== 'RUNNING' && status !== 'PAUSED') return false;
    throw error;
  }
}

function pickPoint(lane: Lane): ResetPoint {
  return (tasks) => tasks[lane.random.between(0, Math.max(0, tasks.length - 1))];
}

function pick<T>(lane: Lane, from: readonly T[]): T {
  const picked = from[lane.random.between(0, from.length - 1)];
  if (picked === undefined) throw new Error('nothing to pick from');
  return picked;
}
