import { afterAll, beforeAll, expect, test } from 'vitest';
import { startDevServer, type DevServer } from '../../src/embedded/dev-server.js';
import { eventually } from '../support/eventually.js';
import { record } from '../support/histories.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

const LIMIT = 5;
const WINDOW_MS = 5_000;
let server: DevServer;
let stack: Stack;

beforeAll(async () => {
  server = await startDevServer({
    env: process.env,
    // Both workflows continue as new every few steps.
    extraArgs: ['--dynamic-config-value', 'limit.historyCount.suggestContinueAsNew=20'],
  });
  stack = await startStack({
    address: server.address,
    env: { FOLLOW_UP_BUDGET_LIMIT: `${LIMIT}`, FOLLOW_UP_BUDGET_WINDOW: '5s', FOLLOW_UP_MARGIN: '200ms' },
    simulator: {
      limiter: { kind: 'sliding', limit: LIMIT, windowMs: WINDOW_MS },
      turn: { minMs: 4_000, maxMs: 6_000 },
    },
  });
});
afterAll(async () => {
  await stack.stop();
  await server.stop();
});

/** Ids of all runs of a workflow, oldest first. */
async function runsOf(workflowId: string): Promise<string[]> {
  const runs: { runId: string; startTime: Date }[] = [];
  const query = `WorkflowId = '${workflowId}'`;
  for await (const { runId, startTime } of stack.client.workflow.list({ query })) runs.push({ runId, startTime });
  return runs.sort((a, b) => a.startTime.getTime() - b.startTime.getTime()).map(({ runId }) => runId);
}

test('follow-ups and budgets that continue as new every few steps lose nothing and repeat nothing', async () => {
  const projectId = 'continued';
  const inputs = Array.from({ length: 20 }, (_, index) => ({
    projectId,
    jobId: `job-${index}`,
    prompt: `message ${index}`,
    ...FAST,
  }));
  for (const { jobId } of inputs) stack.simulator.addJob({ projectId, jobId });
  const handles = await Promise.all(inputs.map((input) => stack.followUps.start(input)));
  const results = await Promise.all(handles.map((handle) => handle.result()));
  expect(results.every((result) => result.status === 'completed' && result.observedActive)).toBe(true);
  const accepted = stack.simulator.ledger.filter((entry) => entry.accepted).map((entry) => entry.jobId);
  expect(accepted).toHaveLength(20);
  expect(new Set(accepted).size).toBe(20);
  expect(stack.simulator.maxInAnyWindow(projectId, WINDOW_MS)).toBeLessThanOrEqual(LIMIT);

  const budgetId = `project-budget/${projectId}`;
  const budgetRuns = await eventually('the budget has continued as new', async () => {
    const runs = await runsOf(budgetId);
    return runs.length > 3 ? runs : undefined;
  });
  const followUpId = await eventually('a follow-up has continued as new', async () => {
    const query = `WorkflowType = 'followUp' AND ExecutionStatus = 'ContinuedAsNew'`;
    for await (const { workflowId } of stack.client.workflow.list({ query })) return workflowId;
    return undefined;
  });
  const followUpRuns = await runsOf(followUpId);
  for (const [index, runId] of budgetRuns.slice(0, 3).entries()) {
    await record(stack.client, `a budget continues as new, run ${index + 1}`, budgetId, runId);
  }
  for (const [index, runId] of followUpRuns.entries()) {
    await record(stack.client, `a follow-up continues as new, run ${index + 1}`, followUpId, runId);
  }
  // A run of the budget stays short although 20 follow-ups use it at once.
  const { events } = await stack.client.workflow.getHandle(budgetId, budgetRuns[0]).fetchHistory();
  expect(events?.length).toBeLessThan(200);
});
