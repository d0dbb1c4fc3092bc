import { randomUUID } from 'node:crypto';
import { Client, Connection, type WorkflowHandle } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { bundleVersion } from '../support/workflow-bundles.js';
import { installQuietRuntime } from '../support/workflow-rig.js';

const taskQueue = `versions-${randomUUID()}`;
const bundles: { code: string }[] = [];
let connection: Connection;
let nativeConnection: NativeConnection;
let client: Client;

beforeAll(async () => {
  const address = inject('temporalAddress');
  await installQuietRuntime();
  for (const version of [1, 2, 3, 4] as const) bundles.push(await bundleVersion(version));
  connection = await Connection.connect({ address });
  nativeConnection = await NativeConnection.connect({ address });
  client = new Client({ connection });
});
afterAll(async () => {
  await nativeConnection.close();
  await connection.close();
});

/** Runs a worker with the workflow code of one version while `work` is done. */
async function whileRuns<T>(version: number, work: () => Promise<T>): Promise<T> {
  const workflowBundle = bundles[version - 1]!;
  const worker = await Worker.create({ connection: nativeConnection, taskQueue, workflowBundle });
  return worker.runUntil(work());
}

const start = () => client.workflow.start('changing', { taskQueue, workflowId: `changing-${randomUUID()}` });
const goOn = (handle: WorkflowHandle) => handle.signal('goOn');

/** Waits until a number of the workflow's timers have fired and it has nothing left to do. */
const hasRested = (handle: WorkflowHandle, timers: number) =>
  eventually(`${timers} timers have fired`, async () => {
    const { events } = await handle.fetchHistory();
    const fired = events?.filter((event) => event.timerFiredEventAttributes).length ?? 0;
    return fired === timers && events?.at(-1)?.workflowTaskCompletedEventAttributes;
  });

async function replay(version: number, handle: WorkflowHandle): Promise<'replays' | 'breaks'> {
  try {
    await Worker.runReplayHistory({ workflowBundle: bundles[version - 1]! }, await handle.fetchHistory());
    return 'replays';
  } catch (error) {
    if (error instanceof Error && error.name === 'DeterminismViolationError') return 'breaks';
    throw error;
  }
}

test('with new code, an old run keeps its old path and a new run takes the new one, and each version replays what it should', async () => {
  const [beforeStep, afterStep] = await whileRuns(1, async () => {
    const handles = [await start(), await start()] as const;
    await goOn(handles[1]);
    await hasRested(handles[0], 0);
    await hasRested(handles[1], 1);
    return handles;
  });

  const patchedRun = await whileRuns(2, async () => {
    // A step that a run has passed keeps the old path. Later steps take the new one, even in an old run.
    await goOn(afterStep);
    expect(await afterStep.result()).toBe('one step');
    await goOn(beforeStep);
    await hasRested(beforeStep, 2);
    await goOn(beforeStep);
    expect(await beforeStep.result()).toBe('two steps');
    const handle = await start();
    await goOn(handle);
    await hasRested(handle, 2);
    return handle;
  });

  const deprecatedRun = await whileRuns(3, async () => {
    await goOn(patchedRun);
    expect(await patchedRun.result()).toBe('two steps');
    const handle = await start();
    await goOn(handle);
    await hasRested(handle, 2);
    return handle;
  });

  await whileRuns(4, async () => {
    await goOn(deprecatedRun);
    expect(await deprecatedRun.result()).toBe('two steps');
  });

  const verdicts = async (handle: WorkflowHandle) =>
    Promise.all([1, 2, 3, 4].map((version) => replay(version, handle)));
  // Which versions can continue a run with the old path, one with the patch, and one with the deprecated patch.
  expect(await verdicts(afterStep)).toEqual(['replays', 'replays', 'breaks', 'breaks']);
  expect(await verdicts(patchedRun)).toEqual(['breaks', 'replays', 'replays', 'breaks']);
  expect(await verdicts(deprecatedRun)).toEqual(['breaks', 'replays', 'replays', 'replays']);
});
