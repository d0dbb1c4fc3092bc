import { Worker } from '@temporalio/worker';
import { beforeAll, expect, test } from 'vitest';
import { recordedHistories } from '../support/histories.js';
import { builtWorkflows, installQuietRuntime } from '../support/workflow-rig.js';

beforeAll(installQuietRuntime);

test('every recorded history replays with the bundle of the build', async () => {
  const histories = recordedHistories();
  expect(histories.length).toBeGreaterThanOrEqual(25);
  const names = new Map(histories.map(({ workflowId, name }) => [workflowId, name]));
  const problems: string[] = [];
  for await (const { workflowId, error } of Worker.runReplayHistories(builtWorkflows, histories)) {
    if (error) problems.push(`${names.get(workflowId)}: ${error.message}`);
  }
  expect(problems).toEqual([]);
});
