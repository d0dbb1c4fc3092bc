import { type Client, WorkflowExecutionAlreadyStartedError, WorkflowNotFoundError } from '@temporalio/client';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { BudgetStoppedError, createBudgets } from '../../src/activities/budgets.js';
import type { SendOutcome } from '../../src/contract/index.js';
import type { Ask } from '../../src/protocol/index.js';

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
      signalWithStart: (_: unknown, { workflowId }: { workflowId: string }) => call(`${workflowId}, started if new`),
      getHandle: (workflowId: string) => ({ signal: () => call(workflowId) }),
    },
  };
  const settings = { limit: 100, windowMs: 3_600_000, reserve: 0, marginMs: 2_000 };
  const budgets = createBudgets(client as unknown as Client, { taskQueue: 'q', settings });
  const ask = (projectId: string, workflowId: string) => {
    const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR', () => undefined) });
    const reply = environment.run(() => budgets.ask(projectId, { workflowId } as Ask));
    reply.catch(() => undefined);
    return { reply, cancel: () => environment.cancel() };
  };
  const run = { workflowId: 'w', runId: 'r' };
  const report = () => budgets.report('p', { kind: 'end', ...run });
  const reportOutcome = (outcome: SendOutcome) =>
    budgets.report('p', { kind: 'outcome', ...run, sendNumber: 1, outcome, atMs: 0 });
  return { ask, report, reportOutcome, open, asked: () => open.map(({ workflowId }) => workflowId).join(', ') };
}

test('a project has one ask under way at a time, and other projects do not wait for it', async () => {
  const { ask, open, asked } = useBudgets();
  const first = ask('p', '1');
  ask('p', '2');
  ask('other', '3');
  await settled();
  expect(asked()).toBe('1, 3');
  open[0]?.finish();
  expect(await first.reply).toEqual({ kind: 'ended' });
  await settled();
  expect(asked()).toBe('1, 3, 2');
});

test('an ask that was cancelled while it waited is not made, and one that fails does not block the next', async () => {
  const { ask, open, asked } = useBudgets();
  const first = ask('p', '1');
  const second = ask('p', '2');
  ask('p', '3');
  await settled();
  second.cancel();
  open[0]?.finish(new Error('deadline exceeded'));
  await expect(first.reply).rejects.toThrow('deadline exceeded');
  await expect(second.reply).rejects.toThrow('CANCELLED');
  await settled();
  expect(asked()).toBe('1, 3');
});

describe('a budget that does not reply within three seconds', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
  afterEach(() => void vi.useRealTimers());

  test('keeps no ask waiting, except one that finds out whether it replies again', async () => {
    const { ask, open, asked } = useBudgets();
    const first = ask('p', '1');
    const second = ask('p', '2');
    const other = ask('other', '3');
    await settled();
    vi.advanceTimersByTime(3_000);
    await expect(second.reply).rejects.toThrow('another call waits for its reply');
    await expect(ask('p', '4').reply).rejects.toThrow('another call waits for its reply');
    open[0]?.finish(new Error('deadline exceeded'));
    open[1]?.finish();
    await expect(first.reply).rejects.toThrow('deadline exceeded');
    expect(await other.reply).toEqual({ kind: 'ended' });
    const probe = ask('p', '5');
    await settled();
    await expect(ask('p', '6').reply).rejects.toThrow('another call waits for its reply');
    expect(asked()).toBe('1, 3, 5');
    open[2]?.finish();
    expect(await probe.reply).toEqual({ kind: 'ended' });
  });

  test('gets all asks again, one after the other, once it has replied', async () => {
    const { ask, open, asked } = useBudgets();
    ask('p', '1');
    await settled();
    vi.advanceTimersByTime(3_000);
    open[0]?.finish();
    await settled();
    const [next, last] = [ask('p', '2'), ask('p', '3')];
    await settled();
    open[1]?.finish();
    expect(await next.reply).toEqual({ kind: 'ended' });
    await settled();
    open[2]?.finish();
    expect(await last.reply).toEqual({ kind: 'ended' });
    expect(asked()).toBe('1, 2, 3');
  });
});

test('a budget that does not reply is asked again what it knows of earlier sends', async () => {
  const answers = [new Error('deadline exceeded'), new Error('deadline exceeded'), 'unknown'];
  const query = async () => {
    const reply = answers.shift();
    if (reply instanceof Error) throw reply;
    return reply;
  };
  const client = {
    withDeadline: (_: number, inTime: () => Promise<unknown>) => inTime(),
    workflow: { getHandle: () => ({ query }) },
  };
  const settings = { limit: 100, windowMs: 3_600_000, reserve: 0, marginMs: 2_000 };
  const budgets = createBudgets(client as unknown as Client, { taskQueue: 'q', settings });
  const asker = { workflowId: 'follow-up/p/j/k', runId: 'new', messageTag: 'tag' };
  expect(await budgets.wasDelivered('p', asker)).toBe('unknown');
  expect(answers).toEqual([]);
});

test('an ask to a budget whose last run is closed fails with how to start the budget again', async () => {
  const { ask, open } = useBudgets();
  const { reply } = ask('p', '1');
  await settled();
  open[0]?.finish(new WorkflowExecutionAlreadyStartedError('closed', 'project-budget/p', 'projectBudget'));
  await expect(reply).rejects.toThrow(BudgetStoppedError);
  await expect(reply).rejects.toThrow('follow-up budget restore p');
});

test('a report to a budget that does not run is dropped; any other failure of a report is thrown', async () => {
  const { report, open } = useBudgets();
  const closed = report();
  open[0]?.finish(new WorkflowNotFoundError('gone', 'project-budget/p', undefined));
  await expect(closed).resolves.toBeUndefined();
  const lost = report();
  open[1]?.finish(new Error('deadline exceeded'));
  await expect(lost).rejects.toThrow('deadline exceeded');
});

test('the outcome of a send starts a budget if there is none, but not one that was stopped', async () => {
  const { reportOutcome, open, asked } = useBudgets();
  const reports = (['sent', 'unknown', 'limited', 'notSent'] as const).map(reportOutcome);
  const started = 'project-budget/p, started if new';
  expect(asked()).toBe([started, started, started, 'project-budget/p'].join(', '));
  open[0]?.finish(new WorkflowExecutionAlreadyStartedError('closed', 'project-budget/p', 'projectBudget'));
  for (const { finish } of open.slice(1)) finish();
  await expect(Promise.all(reports)).resolves.toBeDefined();
});
