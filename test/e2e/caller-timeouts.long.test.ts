import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest';
import { followUpWorkflowId, SearchAttribute } from '../../src/contract/index.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ address: inject('temporalAddress') });
});
afterAll(() => stack.stop());

const projectId = 'timeouts';
const arrived = (jobId: string) => stack.simulator.ledger.filter((entry) => entry.jobId === jobId).length;

test.each(['workflowExecutionTimeout', 'workflowRunTimeout'])(
  'a %s of the caller ends a follow-up with its delivery unknown, and sends nothing twice',
  async (timeout) => {
    const jobId = timeout;
    stack.simulator.addJob({ projectId, jobId, behaviour: { neverEnds: true } });
    const workflowId = followUpWorkflowId({ projectId, jobId, key: 'k' });
    const input = { projectId, jobId, prompt: 'Add tests.', ...FAST };
    const start = { workflowId, taskQueue: stack.taskQueue, args: [input] };
    const first = await stack.client.workflow.start('followUp', { ...start, [timeout]: '8s' });
    const error = await stack.followUps
      .handle(workflowId)
      .result()
      .catch((reason: unknown) => reason);
    expect(error).toMatchObject({ type: 'TimedOut', delivered: 'unknown' });
    expect(error).toMatchObject({ delivered: 'unknown' });
    expect(arrived(jobId)).toBe(1);
    // The follow-up had no chance to record its end.
    const listed = await stack.client.workflow.getHandle(workflowId, first.firstExecutionRunId).describe();
    expect(listed.typedSearchAttributes.get(SearchAttribute.state)).toBe('polling');
    // Started again, it waits until the job is at rest, and then its budget knows the delivery.
    await stack.client.workflow.start('followUp', { ...start, workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY' });
    const again = stack.followUps.handle(workflowId);
    await expect.poll(() => again.progress().then(({ state }) => state)).toBe('waiting-for-job');
    stack.simulator.changeJob({ projectId, jobId, status: 'completed' });
    expect(await again.result()).toMatchObject({ status: 'completed', delivery: 'sent' });
    expect(arrived(jobId)).toBe(1);
  },
);

test('the deadline of a call ends the call, and the follow-up continues', async () => {
  const jobId = 'deadline';
  stack.simulator.addJob({ projectId, jobId });
  await stack.followUps.budget(projectId).pause();
  const started = await stack.followUps.start({ projectId, jobId, prompt: 'Add tests.', key: 'k', ...FAST });
  const { connection } = stack.client;
  const waited = connection.withDeadline(Date.now() + 500, () =>
    stack.client.workflow.getHandle(started.workflowId).result(),
  );
  // gRPC's DEADLINE_EXCEEDED.
  await expect(waited).rejects.toMatchObject({ cause: { code: 4 } });
  await stack.followUps.budget(projectId).resume();
  expect(await started.result()).toMatchObject({ status: 'completed' });
  expect(arrived(jobId)).toBe(1);
});

test('a signal with a wrong name has no effect, and a query with a wrong name fails', async () => {
  const jobId = 'names';
  stack.simulator.addJob({ projectId, jobId, behaviour: { neverEnds: true } });
  const { workflowId } = await stack.followUps.start({ projectId, jobId, prompt: 'Add tests.', key: 'k', ...FAST });
  const handle = stack.client.workflow.getHandle(workflowId);
  await handle.signal('PollNow');
  await expect(handle.query('Progress')).rejects.toThrow(/Progress/);
  await expect(handle.executeUpdate('ResolveDelivery', { args: ['sent'] })).rejects.toThrow();
  await expect
    .poll(() =>
      stack.followUps
        .handle(workflowId)
        .progress()
        .then(({ state }) => state),
    )
    .toBe('polling');
  await handle.cancel();
});

test('run warns if its result is that of another input', async () => {
  const jobId = 'differs';
  stack.simulator.addJob({ projectId, jobId });
  const emitWarning = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
  const input = { projectId, jobId, prompt: 'Add tests.', key: 'k', ...FAST };
  const first = await stack.followUps.run(input);
  expect(await stack.followUps.run(input)).toEqual(first);
  expect(emitWarning).not.toHaveBeenCalled();
  expect(await stack.followUps.run({ ...input, prompt: 'Other.' })).toEqual(first);
  expect(emitWarning).toHaveBeenCalledExactlyOnceWith(
    expect.stringContaining('follow-up/timeouts/differs/k') as string,
    expect.objectContaining({ code: 'FOLLOW_UP_INPUT_DIFFERS' }),
  );
  emitWarning.mockRestore();
});
