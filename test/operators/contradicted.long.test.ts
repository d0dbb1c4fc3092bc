import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NativeConnection, Worker } from '@temporalio/worker';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { resetWorkflow } from '../support/buttons.js';
import { FAST, type Stack, startStack } from '../support/stack.js';
import { builtWorkflows } from '../support/workflow-rig.js';

const directory = mkdtempSync(join(tmpdir(), 'contradicted-'));
let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ address: inject('temporalAddress') });
});
afterAll(async () => {
  await stack.stop();
  rmSync(directory, { recursive: true });
});

/** The build's workflows, but a follow-up begins with a timer. */
function withFirstTimer() {
  const built = readFileSync(builtWorkflows.workflowBundle.codePath, 'utf8');
  const [begin, changed] = [
    /(async function followUp\(input\) \{)/,
    '$1 await new Promise((end) => setTimeout(end, 9e6));',
  ];
  expect(built).toMatch(begin);
  const codePath = join(directory, 'bundle.js');
  writeFileSync(codePath, built.replace(begin, changed));
  return { ...builtWorkflows, workflowBundle: { codePath } };
}

test('a follow-up whose history contradicts its code names a reset with which it continues', async () => {
  const { client, followUps, simulator, taskQueue } = stack;
  const { baseUrl: AGENT_JOBS_BASE_URL, apiKey: AGENT_JOBS_API_KEY } = simulator;
  const projectId = `op-${randomUUID().slice(0, 8)}`;
  simulator.addJob({ projectId, jobId: 'job' });
  await stack.stopWorker();
  const connection = await NativeConnection.connect({ address: inject('temporalAddress') });
  const worker = await Worker.create({ ...withFirstTimer(), connection, taskQueue });
  const { workflowId } = await worker.runUntil(async () => {
    const started = await followUps.start({ projectId, jobId: 'job', prompt: 'Add tests.', ...FAST });
    await expect
      .poll(async () => (await client.workflow.getHandle(started.workflowId).fetchHistory()).events)
      .toHaveLength(5);
    return started;
  });
  await connection.close();
  await client.workflow.getHandle(workflowId).signal('pollNow');

  const env = { AGENT_JOBS_BASE_URL, AGENT_JOBS_API_KEY };
  const next = await startStack({ address: inject('temporalAddress'), taskQueue, env });
  try {
    const fix = `temporal workflow reset --type FirstWorkflowTask --workflow-id ${workflowId} --reason failing`;
    const trouble: unknown = expect.objectContaining({ workflowId, kind: 'failing', fix });
    await expect
      .poll(() => followUps.health())
      .toMatchObject({ troubles: expect.arrayContaining([trouble]) as unknown });
    await resetWorkflow(client, workflowId, 'first');
    // This one never asked its budget, which cannot vouch for the run before the reset.
    const result = followUps.handle(workflowId).result();
    await expect(result).rejects.toMatchObject({ type: 'Closed', delivered: 'unknown' });
    expect(simulator.ledger.filter((entry) => entry.projectId === projectId)).toEqual([]);
  } finally {
    await next.stop();
  }
});
