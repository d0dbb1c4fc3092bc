import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { budgetStatusQuery, projectBudgetWorkflowId, WorkflowType } from '../../src/contract/index.js';
import type { ProjectBudgetInput } from '../../src/protocol/index.js';
import { eventually } from '../support/eventually.js';
import { recordedHistories, type RecordedHistory } from '../support/histories.js';
import { connectPatiently } from '../support/stack.js';
import { builtWorkflows, installQuietRuntime } from '../support/workflow-rig.js';

/** The example of CONTRIBUTING.md: a budget wakes each hour, also if nothing is due. */
const guide = readFileSync(join(import.meta.dirname, '..', '..', 'CONTRIBUTING.md'), 'utf8');
const [, RULE = '', PATCHED = ''] = /\/\/ Before: (.+)\n([^`]+?)\n *```/.exec(guide) ?? [];
const CHANGED = PATCHED.replace("port.patched('wakes-hourly')", 'true');

const directory = mkdtempSync(join(tmpdir(), 'patch-'));
beforeAll(installQuietRuntime);
afterAll(() => rmSync(directory, { recursive: true }));

/** The build's workflows, with this line instead of {@link RULE}. */
function withRule(rule: string) {
  const built = readFileSync(builtWorkflows.workflowBundle.codePath, 'utf8');
  expect(RULE).toMatch(/^const nextMs = /);
  expect(built.split(RULE)).toHaveLength(2);
  const codePath = join(directory, `${randomUUID()}.js`);
  writeFileSync(codePath, built.replace(RULE, rule));
  return { ...builtWorkflows, workflowBundle: { codePath } };
}

/** The names of the histories that do not replay. */
async function failedReplays(workflows: typeof builtWorkflows, histories: RecordedHistory[]): Promise<string[]> {
  const names = new Map(histories.map(({ workflowId, name }) => [workflowId, name]));
  const failed: string[] = [];
  for await (const { workflowId, error } of Worker.runReplayHistories(workflows, histories)) {
    if (error) failed.push(`${names.get(workflowId)}: ${error.name}`);
  }
  return failed;
}

test('a changed rule of the budget breaks the replay of earlier runs, and a patched one does not', async () => {
  const histories = recordedHistories();
  const name = 'a budget that the service limits';
  expect(CHANGED).not.toBe(PATCHED);
  expect(await failedReplays(withRule(CHANGED), histories)).toContain(`${name}: DeterminismViolationError`);
  expect(await failedReplays(withRule(PATCHED), histories)).toEqual([]);
});

test('a budget that runs takes the new path of a patch at its next event', async () => {
  const address = inject('temporalAddress');
  const connection = await connectPatiently(address);
  const native = await NativeConnection.connect({ address });
  const client = new Client({ connection });
  const projectId = `p-${randomUUID().slice(0, 8)}`;
  const taskQueue = `patch-${projectId}`;
  const activities = {
    listRecentSends: async () => ({ sends: [], others: 0, leaseMs: 1_000, drainMs: 0, runId: 'run' }),
  };
  const during = async <T>(workflows: typeof builtWorkflows, work: () => Promise<T>): Promise<T> => {
    const worker = await Worker.create({ ...workflows, connection: native, taskQueue, activities });
    return worker.runUntil(work);
  };
  const workflowId = projectBudgetWorkflowId(projectId);
  const settings = { limit: 10, windowMs: 3_600_000, reserve: 0, marginMs: 200 };
  const args: [ProjectBudgetInput] = [{ projectId, settings }];
  const budget = await client.workflow.start(WorkflowType.projectBudget, { workflowId, taskQueue, args });
  await during(builtWorkflows, () =>
    eventually('it counts', async () => (await budget.query(budgetStatusQuery)).isCounting === undefined),
  );
  const timers = async () => {
    const { events } = await budget.fetchHistory();
    return (events ?? []).filter((event) => event.timerStartedEventAttributes).length;
  };
  expect(await timers()).toBe(0);
  await during(withRule(PATCHED), async () => {
    await budget.executeUpdate('setLimit', { args: [{ limit: 11 }] });
    await eventually('it has a timer', async () => (await timers()) === 1);
  });
  const history = { workflowId, name: 'the budget', history: await budget.fetchHistory() };
  await budget.terminate();
  expect(await failedReplays(withRule(PATCHED), [history])).toEqual([]);
  await Promise.all([native.close(), connection.close()]);
});
