import { expect, test, vi } from 'vitest';
import { followUpWorkflowId, SearchAttribute } from '../../src/contract/index.js';
import { reaches, useStack } from '../support/project.js';
import { FAST } from '../support/stack.js';

const tested = useStack();
const { newProject } = tested;

test.concurrent.each(['workflowExecutionTimeout', 'workflowRunTimeout'])(
  'a %s of the caller ends a follow-up with its delivery unknown, and sends nothing twice',
  async (timeout) => {
    const project = newProject();
    project.addEndlessJob();
    const { client, taskQueue, followUps } = tested.stack;
    const workflowId = followUpWorkflowId({ projectId: project.id, jobId: 'job', key: 'k' });
    const start = { workflowId, taskQueue, args: [{ projectId: project.id, jobId: 'job', prompt: 'x', ...FAST }] };
    const first = await client.workflow.start('followUp', { ...start, [timeout]: '15s' });
    const followUp = followUps.handle(workflowId);
    await reaches(followUp, 'polling');
    await expect(followUp.result()).rejects.toMatchObject({ type: 'TimedOut', delivered: 'unknown' });
    expect(project.ledger).toHaveLength(1);
    // The follow-up had no chance to record its end.
    const listed = await client.workflow.getHandle(workflowId, first.firstExecutionRunId).describe();
    expect(listed.typedSearchAttributes.get(SearchAttribute.state)).toBe('polling');
    // Started again, it waits until the job is at rest, and then its budget knows the delivery.
    await client.workflow.start('followUp', { ...start, workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY' });
    await reaches(followUp, 'waiting-for-job');
    project.endTurn();
    await project.endWell([followUp]);
  },
);

test('run warns if its result is that of another input', async () => {
  const project = newProject();
  project.addJob();
  const emitWarning = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
  const input = { projectId: project.id, jobId: 'job', prompt: 'Add tests.', key: 'k', ...FAST };
  const { followUps } = tested.stack;
  const first = await followUps.run(input);
  expect(await followUps.run(input)).toEqual(first);
  expect(emitWarning).not.toHaveBeenCalled();
  expect(await followUps.run({ ...input, prompt: 'Other.' })).toEqual(first);
  expect(emitWarning).toHaveBeenCalledExactlyOnceWith(
    expect.stringContaining(`follow-up/${project.id}/job/k`) as string,
    expect.objectContaining({ code: 'FOLLOW_UP_INPUT_DIFFERS' }),
  );
  emitWarning.mockRestore();
});
