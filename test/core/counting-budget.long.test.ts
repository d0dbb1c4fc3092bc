import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { expect, inject, test } from 'vitest';
import { pauseUpdate } from '../../src/contract/budget.js';
import { budgetTaskQueue, WorkflowType } from '../../src/contract/index.js';
import { type Ask, askUpdate, budgetStartOptions } from '../../src/contract/protocol.js';
import { builtBundle } from '../support/workflow-bundles.js';
import { installQuietRuntime } from '../support/workflow-rig.js';

/** The server's limit of updates in a run. */
const MOST_UPDATES = 2_000;
/** As many as it takes. */
const AT_ONCE = 10;

test('a budget whose list does not answer goes on taking asks and orders beyond the updates of a run', async () => {
  await installQuietRuntime();
  const address = inject('temporalAddress');
  const client = new Client({ connection: await Connection.connect({ address }) });
  const connection = await NativeConnection.connect({ address });
  const taskQueue = `counting-${randomUUID()}`;
  const listRecentSends = () => Promise.reject(new Error('the list of workflows is down'));
  const worker = await Worker.create({
    ...{ connection, workflowBundle: builtBundle, activities: { listRecentSends } },
    taskQueue: budgetTaskQueue(taskQueue),
  });
  await worker.runUntil(async () => {
    const projectId = randomUUID();
    const settings = { limit: 100, windowMs: 3_600_000, reserve: 0, marginMs: 2_000 };
    const budget = await client.workflow.start(WorkflowType.projectBudget, {
      ...budgetStartOptions({ projectId, taskQueue }),
      args: [{ projectId, settings }],
    });
    const askOf = (index: number): Ask => ({
      ...{ workflowId: `follow-up/${projectId}/job-${index % 200}/key`, runId: randomUUID(), sendNumber: 1 },
      ...{ lane: 'interactive', messageTag: 'x', mayHaveSent: false, startedAtMs: Date.now() },
      ...{ leaseMs: 60_000, drainMs: 120_000, maxLimit: 100 },
    });
    for (let index = 0; index <= MOST_UPDATES; index += AT_ONCE) {
      const asks = Array.from({ length: AT_ONCE }, (_, more) => askOf(index + more));
      const answers = await Promise.all(asks.map((ask) => budget.executeUpdate(askUpdate, { args: [ask] })));
      for (const answer of answers) expect(answer).toMatchObject({ reason: 'counting' });
    }
    const status = await budget.executeUpdate(pauseUpdate, { args: [{}] });
    expect(status).toMatchObject({ isCounting: true, waitingTotal: 200, paused: { reasons: ['operator'] } });
    await budget.terminate();
  });
  await connection.close();
  await client.connection.close();
});
