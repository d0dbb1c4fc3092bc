import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { followUpWorkflowId, WorkflowType } from '../../src/contract/index.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

const BATCH_PRIORITY = 4;
const BACKLOG = 60;

let stack: Stack | undefined;
let connection: Connection;

beforeAll(async () => {
  connection = await Connection.connect({ address: inject('temporalAddress') });
});

afterAll(async () => {
  await stack?.stop();
  await connection.close();
});

test('follow-ups of a batch let interactive ones go first', async () => {
  const taskQueue = `priority-${randomUUID()}`;
  const projectId = `priority-${randomUUID().slice(0, 8)}`;
  const client = new Client({ connection });
  const start = (jobId: string, priorityKey?: number) => {
    const input = { projectId, jobId, prompt: 'Go on.', ...FAST };
    const workflowId = followUpWorkflowId({ ...input, key: 'k' });
    const priority = priorityKey === undefined ? {} : { priority: { priorityKey } };
    return client.workflow.start(WorkflowType.followUp, { taskQueue, workflowId, args: [input], ...priority });
  };
  // No worker runs yet, so all first tasks wait at the server.
  const backlog = await Promise.all(Array.from({ length: BACKLOG }, (_, n) => start(`batch-${n}`, BATCH_PRIORITY)));
  const interactive = await start('interactive');
  stack = await startStack({
    address: inject('temporalAddress'),
    taskQueue,
    env: { FOLLOW_UP_WORKFLOW_TASKS: '2', FOLLOW_UP_POLLERS: '2' },
  });
  const begunAt = async ({ workflowId }: { workflowId: string }) => {
    const { events } = await client.workflow.getHandle(workflowId).fetchHistory();
    const { seconds, nanos } = events?.find((event) => event.workflowTaskStartedEventAttributes)?.eventTime ?? {};
    return seconds === undefined || seconds === null ? Infinity : Number(seconds) + (nanos ?? 0) / 1e9;
  };
  const mine = await eventually('the task that goes first', async () => {
    const at = await begunAt(interactive);
    return at < Infinity ? at : undefined;
  });
  const others = await Promise.all(backlog.map(begunAt));
  // A poll may reach a partition of the queue that holds only tasks of the batch.
  expect(others.filter((at) => at < mine).length).toBeLessThan(BACKLOG / 4);
});

test('a batch gives its follow-ups the lower priority', async () => {
  if (stack === undefined) throw new Error('there is no stack');
  const projectId = `priority-${randomUUID().slice(0, 8)}`;
  const items = [{ projectId, jobId: 'job', prompt: 'Go on.', ...FAST }];
  const batch = await stack.followUps.startBatch({ id: projectId, items });
  const { items: ended } = await batch.result();
  const { raw } = await stack.client.workflow.getHandle(ended[0]?.workflowId ?? '').describe();
  expect(raw.workflowExecutionInfo?.priority?.priorityKey).toBe(BATCH_PRIORITY);
});
