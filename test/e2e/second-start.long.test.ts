import {
  WorkflowExecutionAlreadyStartedError,
  type WorkflowHandleWithFirstExecutionRunId,
  type WorkflowStartOptions,
} from '@temporalio/client';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { describe, expect, test, vi } from 'vitest';
import { type FollowUpResult, followUpWorkflowId, SearchAttribute } from '../../src/contract/index.js';
import { eventually } from '../support/eventually.js';
import { failureOf } from '../support/failure-of.js';
import { type Project, reaches, useStack } from '../support/project.js';
import { FAST } from '../support/stack.js';

const tested = useStack();

type StartPolicy = Partial<WorkflowStartOptions>;

/** Starts a follow-up with a fixed key, as any Temporal client can. */
function start({ id, stack: { client, taskQueue } }: Project, policy: StartPolicy = {}, prompt = 'the first message') {
  return client.workflow.start('followUp', {
    taskQueue,
    workflowId: followUpWorkflowId({ projectId: id, jobId: 'job', key: 'key' }),
    args: [{ projectId: id, jobId: 'job', prompt, ...FAST }],
    ...policy,
  });
}
const ANOTHER = 'another message';
const closed = { type: 'Closed', delivered: 'no' };

function newProject(): Project {
  const project = tested.newProject();
  project.addEndlessJob();
  return project;
}

const handleOf = ({ workflowId }: { workflowId: string }) => tested.stack.followUps.handle(workflowId);

/** A follow-up that has ended. */
async function ended(project: Project) {
  const handle = await start(project);
  await reaches(handleOf(handle), 'polling');
  project.endTurn();
  return { handle, result: (await handle.result()) as FollowUpResult };
}

/** How often a follow-up has waited for longer than the 1 ms until its decision is in the history. */
async function waitsOf(handle: WorkflowHandleWithFirstExecutionRunId): Promise<number> {
  const run = tested.stack.client.workflow.getHandle(handle.workflowId, handle.firstExecutionRunId);
  const { events } = await run.fetchHistory();
  const timers = (events ?? []).flatMap(({ timerStartedEventAttributes: timer }) => timer?.startToFireTimeout ?? []);
  return timers.filter((timeout) => tsToMs(timeout) > 1).length;
}

describe.concurrent('a start with a used key', () => {
  test.each<StartPolicy>([
    { workflowIdReusePolicy: 'ALLOW_DUPLICATE' },
    { workflowIdConflictPolicy: 'FAIL' },
    { workflowIdConflictPolicy: 'USE_EXISTING' },
    { workflowIdConflictPolicy: 'TERMINATE_EXISTING' },
  ])('sends nothing after the end of its follow-up, with %j, and says what was sent', async (policy) => {
    const project = newProject();
    const { handle, result: first } = await ended(project);
    const startedMs = (await handle.describe()).startTime.getTime();
    const second = (await (await start(project, policy)).result()) as FollowUpResult;
    // Nobody knows the job before the send of another run, so its link counts as not changed.
    const { prLink } = first;
    expect(second).toMatchObject({ status: 'completed', delivery: 'sent', prLink, prLinkChanged: false });
    expect(Date.parse(second.sentAt)).toBeGreaterThanOrEqual(startedMs);
    expect(Date.parse(second.sentAt)).toBeLessThan(Date.parse(first.finishedAt));
    const other = await start(project, policy, ANOTHER);
    const message = expect.stringContaining('key was already used for another message') as string;
    expect(await failureOf(other.result())).toMatchObject({ ...closed, message });
    expect(await waitsOf(other)).toBe(0);
    expect(project.ledger).toHaveLength(1);
  });

  test.each<StartPolicy>([
    { workflowIdConflictPolicy: 'TERMINATE_EXISTING' },
    { workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY' },
  ])('sends nothing after its follow-up was terminated while the agent worked, with %j', async (policy) => {
    for (const prompt of [undefined, ANOTHER]) {
      const project = newProject();
      const first = await start(project);
      await reaches(handleOf(first), 'polling');
      // TERMINATE_EXISTING does this itself.
      if (policy.workflowIdConflictPolicy === undefined) await first.terminate();
      const second = await start(project, policy, prompt);
      project.endTurn();
      if (prompt === undefined) expect(await second.result()).toMatchObject({ status: 'completed', delivery: 'sent' });
      else expect(await failureOf(second.result())).toMatchObject(closed);
      expect(project.ledger).toHaveLength(1);
    }
  });

  test.each<StartPolicy>([{ workflowExecutionTimeout: '15s' }, { workflowRunTimeout: '15s' }])(
    'finds out a delivery that became unknown when %j of the caller ended the first run',
    async (timeout) => {
      const project = newProject();
      const first = await start(project, timeout);
      const followUp = handleOf(first);
      await reaches(followUp, 'polling');
      await expect(followUp.result()).rejects.toMatchObject({ type: 'TimedOut', delivered: 'unknown' });
      // The follow-up had no chance to record its end.
      const listed = await project.workflow(first).describe();
      expect(listed.typedSearchAttributes.get(SearchAttribute.state)).toBe('polling');
      // The budget remembers the delivery, and the next run asks it although the job is at work.
      await start(project, { workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY' });
      await eventually('the next run knows the delivery', async () => {
        const { state, delivery } = await followUp.progress();
        return state === 'polling' && delivery === 'sent';
      });
      project.endTurn();
      await project.endWell([followUp]);
    },
  );

  test('during the send is refused (FAIL), returns the follow-up (USE_EXISTING) or ends as Closed (TERMINATE_EXISTING)', async () => {
    const project = newProject();
    const release = project.holdMessages('job', 'recorded');
    const first = await start(project);
    await project.deliveries(1);
    for (const prompt of [undefined, ANOTHER]) {
      const refused = start(project, { workflowIdConflictPolicy: 'FAIL' }, prompt);
      await expect(refused).rejects.toThrow(WorkflowExecutionAlreadyStartedError);
      // Temporal starts nothing and drops the input. Only the caller can know that the result belongs to another input.
      const same = await start(project, { workflowIdConflictPolicy: 'USE_EXISTING' }, prompt);
      expect(same.firstExecutionRunId).toBe(first.firstExecutionRunId);
    }
    project.endTurn();
    const other = await start(project, { workflowIdConflictPolicy: 'TERMINATE_EXISTING' }, ANOTHER);
    expect(await failureOf(other.result())).toMatchObject(closed);
    expect(await waitsOf(other)).toBe(0);
    release();
    expect(project.ledger).toHaveLength(1);
  });

  test.each([
    ['its job could be read', true],
    ['its project was resumed', false],
  ])('sends another message if the first follow-up was cancelled before %s', async (_when, isUnread) => {
    const project = newProject();
    const { simulator } = tested.stack;
    if (isUnread) simulator.failNext({ method: 'GET', projectId: project.id, how: { status: 503 }, times: 6 });
    else await project.budget.pause();
    const first = await start(project);
    await reaches(handleOf(first), 'blocked');
    await first.cancel();
    expect(await failureOf(first.result())).toMatchObject({ type: 'Canceled' });
    if (!isUnread) await project.budget.resume();
    const again = await start(project, { workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY' }, ANOTHER);
    await reaches(handleOf(again), 'polling');
    project.endTurn();
    expect(await again.result()).toMatchObject({ status: 'completed', delivery: 'sent' });
    expect(project.ledger).toHaveLength(1);
  });
});

test('run warns if its result belongs to another input', async () => {
  const { id: projectId } = newProject();
  const { followUps, simulator } = tested.stack;
  simulator.addJob({ projectId, jobId: 'quick' });
  const emitWarning = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
  const input = { projectId, jobId: 'quick', prompt: 'Add tests.', key: 'k', ...FAST };
  const first = await followUps.run(input);
  expect(await followUps.run(input)).toEqual(first);
  expect(emitWarning).not.toHaveBeenCalled();
  expect(await followUps.run({ ...input, prompt: ANOTHER })).toEqual(first);
  const code = expect.objectContaining({ code: 'FOLLOW_UP_INPUT_DIFFERS' }) as object;
  const text = expect.stringContaining(`follow-up/${projectId}/quick/k`) as string;
  expect(emitWarning).toHaveBeenCalledExactlyOnceWith(text, code);
  emitWarning.mockRestore();
});

test('only the start and the send of a follow-up hold its prompt in the history', async () => {
  const project = newProject();
  await project.budget.pause();
  const prompt = `a prompt for ${project.id}`;
  const handle = await start(project, {}, prompt);
  await reaches(handleOf(handle), 'blocked');
  await project.budget.resume();
  await reaches(handleOf(handle), 'polling');
  const { events } = await handle.fetchHistory();
  expect(events?.length).toBeGreaterThan(15);
  const holds = (value: unknown): boolean =>
    value instanceof Uint8Array
      ? Buffer.from(value).includes(prompt)
      : typeof value === 'object' && value !== null && Object.values(value).some(holds);
  const [started, send, ...others] = (events ?? []).filter(holds);
  expect(started?.workflowExecutionStartedEventAttributes).toBeTruthy();
  expect(send?.activityTaskScheduledEventAttributes?.activityType?.name).toBe('sendMessage');
  expect(others).toEqual([]);
  project.endTurn();
});
