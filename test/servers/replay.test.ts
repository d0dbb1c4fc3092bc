import { Connection } from '@temporalio/client';
import { Worker } from '@temporalio/worker';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { makeItems, startBatch } from '../support/batch.js';
import { eventually } from '../support/eventually.js';
import { GO_SERVER_MODULE } from '../support/pins.js';
import { FAST, type Stack, startStack } from '../support/stack.js';
import { testServerAge } from '../support/temporal-server-binaries.js';
import { builtWorkflows } from '../support/workflow-rig.js';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ address: inject('temporalAddress') });
});
afterAll(() => stack.stop());

test.runIf(testServerAge === 'oldest')('this test run uses the oldest server', async () => {
  const connection = await Connection.connect({ address: inject('temporalAddress') });
  const { serverVersion } = await connection.workflowService.getClusterInfo({});
  await connection.close();
  expect(`v${serverVersion}`).toBe(GO_SERVER_MODULE.oldest.version);
});

test('histories that this server records of a batch, its part, its follow-ups and their budget replay', async () => {
  const projectId = `replay-${Date.now()}`;
  makeItems(stack, [projectId], 3);
  const jobIds = ['job-0', 'job-1', 'job-2'];
  const batch = await startBatch(stack, projectId, { projectId, prompt: 'same', jobIds, defaults: FAST });
  expect(await batch.result()).toMatchObject({ completed: 3, errors: 0 });

  const query = `TaskQueue IN ('${stack.taskQueue}', '${stack.taskQueue}-budget')`;
  const histories = await eventually('the lists name all workflows', async () => {
    const found = [];
    for await (const each of stack.client.workflow.list({ query }).intoHistories()) found.push(each);
    return found.length === 6 ? found : undefined;
  });
  const problems = [];
  for await (const { error } of Worker.runReplayHistories(builtWorkflows, histories)) {
    if (error) problems.push(error);
  }
  expect(problems).toEqual([]);
});
