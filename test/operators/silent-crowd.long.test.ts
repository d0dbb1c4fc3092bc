import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import type { StartedFollowUp } from '../../src/client/index.js';
import { projectBudgetWorkflowId } from '../../src/contract/index.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

const CROWD = 400;
const SENDS = 40;
let stack: Stack;
beforeAll(async () => {
  stack = await startStack({
    address: inject('temporalAddress'),
    env: { FOLLOW_UP_BUDGET_LIMIT: '1000' },
    // The service is slow, so the load of the machine is a small part of what is measured.
    simulator: { autoCreate: true, latency: { minMs: 1_000, maxMs: 1_000 } },
  });
});
afterAll(() => stack.stop());

const newProject = () => `crowd-${randomUUID().slice(0, 8)}`;

/** The 95th percentile of the milliseconds from a start to the arrival of the message. */
async function p95OfSends(): Promise<number> {
  const projectId = newProject();
  const tookMs: number[] = [];
  for (let sent = 0; sent < SENDS; sent += 4) {
    await Promise.all(
      [0, 1, 2, 3].map(async (place) => {
        const jobId = `job-${sent + place}`;
        const fromMs = performance.now();
        await stack.followUps.start({ projectId, jobId, prompt: 'Add tests.', ...FAST });
        await eventually('it has arrived', () => stack.simulator.job(projectId, jobId)?.messages === 1);
        tookMs.push(performance.now() - fromMs);
      }),
    );
  }
  return tookMs.sort((a, b) => a - b)[Math.ceil(SENDS * 0.95) - 1] ?? 0;
}

test(`${CROWD} follow-ups whose budget has no worker do not slow another project's sends`, async () => {
  const beforeMs = await p95OfSends();
  const silent = newProject();
  const budget = await stack.client.workflow.start('projectBudget', {
    workflowId: projectBudgetWorkflowId(silent),
    taskQueue: `nobody-${randomUUID()}`,
    args: [{ projectId: silent, settings: { limit: 100, windowMs: 3_600_000, reserve: 0, marginMs: 2_000 } }],
  });
  const crowd: StartedFollowUp[] = [];
  while (crowd.length < CROWD) {
    const jobIds = Array.from({ length: 20 }, (_, place) => `job-${crowd.length + place}`);
    const started = jobIds.map((jobId) =>
      stack.followUps.start({ projectId: silent, jobId, prompt: 'Add tests.', ...FAST }),
    );
    crowd.push(...(await Promise.all(started)));
  }
  await eventually('all are told that it is silent', async () => {
    let told = 0;
    for await (const { projectId } of stack.followUps.list({ project: silent, state: 'blocked' })) {
      if (projectId === silent) told += 1;
    }
    return told === CROWD;
  });
  const besideMs = await p95OfSends();
  expect(besideMs).toBeLessThan(2 * beforeMs);
  await budget.terminate();
  await Promise.all(crowd.map((followUp) => followUp.cancel().catch(() => undefined)));
}, 600_000);
