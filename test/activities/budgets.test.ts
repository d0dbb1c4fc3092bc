import { type Client, WorkflowExecutionAlreadyStartedError, WorkflowNotFoundError } from '@temporalio/client';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { expect, test } from 'vitest';
import { BudgetStoppedError, createBudgets } from '../../src/activities/budgets.js';
import type { Ask } from '../../src/contract/protocol.js';

const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Asks through a client whose calls end when the test says so. */
function useBudgets() {
  const open: { workflowId: string; finish: (error?: Error) => void }[] = [];
  const call = (workflowId: string) =>
    new Promise<unknown>((resolve, reject) => {
      open.push({ workflowId, finish: (error) => (error ? reject(error) : resolve({ kind: 'ended' })) });
    });
  const client = {
    withDeadline: (_: number, inTime: () => Promise<unknown>) => inTime(),
    workflow: {
      executeUpdateWithStart: (_: unknown, { args: [{ workflowId }] }: { args: [Ask] }) => call(workflowId),
      getHandle: (workflowId: string) => ({ signal: () => call(workflowId) }),
    },
  };
  const settings = { limit: 100, windowMs: 3_600_000, reserve: 0, marginMs: 2_000 };
  const budgets = createBudgets(client as unknown as Client, { taskQueue: 'q', settings });
  const ask = (projectId: string, workflowId: string) => {
    const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR', () => undefined) });
    const answer = environment.run(() => budgets.ask(projectId, { workflowId } as Ask));
    answer.catch(() => undefined);
    return { answer, cancel: () => environment.cancel() };
  };
  const tell = () => budgets.tell('p', { kind: 'end', workflowId: 'w', runId: 'r' });
  return { ask, tell, open, asked: () => open.map(({ workflowId }) => workflowId).join(', ') };
}

test('one ask at a time goes out for a project, and others do not wait for it', async () => {
  const { ask, open, asked } = useBudgets();
  const first = ask('p', '1');
  ask('p', '2');
  ask('other', '3');
  await settled();
  expect(asked()).toBe('1, 3');
  open[0]?.finish();
  expect(await first.answer).toEqual({ kind: 'ended' });
  await settled();
  expect(asked()).toBe('1, 3, 2');
});

test('an ask whose activity ended while it waited does not go out, and one that fails keeps nobody', async () => {
  const { ask, open, asked } = useBudgets();
  const first = ask('p', '1');
  const second = ask('p', '2');
  ask('p', '3');
  await settled();
  second.cancel();
  open[0]?.finish(new Error('deadline exceeded'));
  await expect(first.answer).rejects.toThrow('deadline exceeded');
  await expect(second.answer).rejects.toThrow('CANCELLED');
  await settled();
  expect(asked()).toBe('1, 3');
});

test('a budget whose last run is closed is stopped, and says how to start it', async () => {
  const { ask, open } = useBudgets();
  const { answer } = ask('p', '1');
  await settled();
  open[0]?.finish(new WorkflowExecutionAlreadyStartedError('closed', 'project-budget/p', 'projectBudget'));
  await expect(answer).rejects.toThrow(BudgetStoppedError);
  await expect(answer).rejects.toThrow('follow-up budget restore p');
});

test('a budget that does not run does not need to know; any other failure is repeated', async () => {
  const { tell, open } = useBudgets();
  const gone = tell();
  open[0]?.finish(new WorkflowNotFoundError('gone', 'project-budget/p', undefined));
  await expect(gone).resolves.toBeUndefined();
  const lost = tell();
  open[1]?.finish(new Error('deadline exceeded'));
  await expect(lost).rejects.toThrow('deadline exceeded');
});
