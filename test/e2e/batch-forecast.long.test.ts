import { Client, type WorkflowClientInterceptor } from '@temporalio/client';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { FollowUpClient } from '../../src/client/index.js';
import { budgetStatusQuery } from '../../src/contract/index.js';
import { runCli } from '../cli/run-cli.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

const LIMIT = 3;
const WINDOW_MS = 6_000;
const ITEMS = 12;
let stack: Stack;

beforeAll(async () => {
  stack = await startStack({
    address: inject('temporalAddress'),
    env: { FOLLOW_UP_BUDGET_LIMIT: `${LIMIT}`, FOLLOW_UP_BUDGET_WINDOW: `${WINDOW_MS}ms`, FOLLOW_UP_MARGIN: '200ms' },
    simulator: { autoCreate: true },
  });
});
afterAll(() => stack.stop());

/** A client that adds the name of each query to a list. */
function countingQueries(asked: string[]): FollowUpClient {
  const { connection, options } = stack.client;
  const interceptor: WorkflowClientInterceptor = {
    query: (input, next) => {
      asked.push(input.queryType);
      return next(input);
    },
  };
  const client = new Client({ connection, namespace: options.namespace, interceptors: { workflow: [interceptor] } });
  return new FollowUpClient({ client, taskQueue: stack.taskQueue });
}

test('the expected end of a batch takes the slots of its project into account, not only its own pace', async () => {
  const projectId = `forecast-${Date.now()}`;
  const items = Array.from({ length: ITEMS }, (_, index) => ({
    projectId,
    jobId: `job-${index}`,
    prompt: 'Add tests.',
    ...FAST,
  }));
  const batch = await stack.followUps.startBatch({ id: projectId, items });
  const expected = await eventually('its end is expected', async () => {
    const { completed, expectedEndAt } = await batch.status();
    return completed >= 2 && completed < ITEMS ? expectedEndAt : undefined;
  });
  const { stdout } = await runCli(['batch', 'status', projectId], {
    env: { TEMPORAL_ADDRESS: inject('temporalAddress'), FOLLOW_UP_TASK_QUEUE: stack.taskQueue },
  });
  expect(stdout).toContain('expected');
  const statusQueries = await eventually('the next send and the end are expected', async () => {
    const asked: string[] = [];
    const { nextSend, expectedEndAt } = await countingQueries(asked).batch(projectId).status();
    return nextSend && expectedEndAt ? asked.filter((name) => name === budgetStatusQuery.name) : undefined;
  });
  // One answer of the project's budget is enough for both.
  expect(statusQueries).toHaveLength(1);
  await batch.result();
  const sends = stack.simulator.ledger.filter((entry) => entry.projectId === projectId);
  const [first, last] = [sends[0]?.receivedAtMs ?? 0, sends.at(-1)?.receivedAtMs ?? 0];
  // Nothing shortens the windows. A busy machine makes turns longer, which the forecast cannot know.
  expect(Date.parse(expected)).toBeGreaterThan(first + (ITEMS / LIMIT - 1) * WINDOW_MS);
  expect(Date.parse(expected)).toBeLessThan(last + 5 * WINDOW_MS);
});
