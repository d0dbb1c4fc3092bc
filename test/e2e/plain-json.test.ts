import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { resolveTemporalCli } from '../../src/dev-server/resolve.js';
import type { FollowUpResult } from '../../src/contract/index.js';
import { startStack, type Stack } from '../support/stack.js';

const run = promisify(execFile);
const address = inject('temporalAddress');
let stack: Stack;
let temporal: string;

beforeAll(async () => {
  stack = await startStack({ address });
  temporal = await resolveTemporalCli({ env: process.env });
});
afterAll(() => stack.stop());

test('20 follow-ups started by the temporal command with plain JSON finish', async () => {
  const projectId = `plain-${Date.now()}`;
  const workflowIds = Array.from({ length: 20 }, (_, index) => `follow-up/${projectId}/job-${index}/cli`);
  for (const [index, workflowId] of workflowIds.entries()) {
    const jobId = `job-${index}`;
    stack.simulator.addJob({ projectId, jobId });
    const input = { projectId, jobId, prompt: 'go on', poll: { initialInterval: '200ms' }, settleTime: 5000 };
    await run(temporal, [
      ...['workflow', 'start', '--address', address, '--type', 'followUp', '--task-queue', stack.taskQueue],
      ...['--workflow-id', workflowId, '--input', JSON.stringify(input)],
    ]);
  }
  const results = await Promise.all(
    workflowIds.map((workflowId) => stack.client.workflow.getHandle(workflowId).result() as Promise<FollowUpResult>),
  );
  expect(results.map((result) => result.status)).toEqual(Array<string>(20).fill('completed'));
  expect(results.every((result) => result.prLinkChanged)).toBe(true);
  expect(stack.simulator.ledger.filter((entry) => entry.accepted && entry.projectId === projectId)).toHaveLength(20);
});
