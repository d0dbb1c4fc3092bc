import { describe, expect, test } from 'vitest';
import { RefusedError, type StartedFollowUp, type WorkflowTrouble } from '../../src/client/index.js';
import { WorkflowType } from '../../src/contract/index.js';
import {
  deleteWorkflow,
  onActivities,
  pauseWorkflow,
  resetWorkflow,
  sendNonsense,
  unpauseWorkflow,
} from '../support/buttons.js';
import { eventually, readsAllSignals } from '../support/eventually.js';
import { type Project, reaches, useStack } from '../support/project.js';
import { FAST } from '../support/stack.js';

// All clocks are this machine's, so a run that was closed before its grant has certainly not used it. A follow-up that
// does not know how its send ended waits for lease and drain.
const operated = useStack({
  env: { FOLLOW_UP_MARGIN: '0s', FOLLOW_UP_SEND_TIMEOUT: '5s', FOLLOW_UP_DRAIN: '1s' },
  leaseMs: 8_000,
});
const { newProject } = operated;
const client = () => operated.stack.client;

/** A follow-up that waits for a slot, until {@link letGo}. */
async function startWaiting(project: Project, jobId = 'job'): Promise<StartedFollowUp> {
  await project.budget.setLimit({ limit: 0 });
  const followUp = await project.start(jobId, { key: 'key' });
  await reaches(followUp, 'waiting-for-budget', 'slot');
  return followUp;
}
/** Waits until the health of the namespace names a trouble. */
const isFound = ({ workflowId, kind, fix }: Omit<WorkflowTrouble, 'what'>) =>
  eventually('it is found', async () => {
    const { troubles } = await operated.stack.followUps.health();
    return troubles.some((found) => found.workflowId === workflowId && found.kind === kind && found.fix === fix);
  });
const letGo = (project: Project) => project.budget.setLimit({ limit: 10 });

describe.concurrent('a waiting follow-up', () => {
  test('shows that it is paused in Temporal, and continues when it is unpaused', async () => {
    const project = newProject();
    const followUp = await startWaiting(project);
    await pauseWorkflow(client(), followUp.workflowId);
    const fix = `temporal workflow unpause --workflow-id ${followUp.workflowId}`;
    expect(await followUp.trouble()).toMatchObject({ kind: 'paused', fix });
    await expect(followUp.progress()).rejects.toMatchObject({ message: expect.stringContaining(fix) });
    await isFound({ workflowId: followUp.workflowId, kind: 'paused', fix });
    await letGo(project);
    await unpauseWorkflow(client(), followUp.workflowId);
    await project.endWell([followUp]);
    expect(await followUp.trouble()).toBeUndefined();
  });

  test.each(['terminated', 'deleted'])('delays no other follow-up if it is %s', async (how) => {
    const project = newProject();
    const followUp = await startWaiting(project);
    if (how === 'deleted') await deleteWorkflow(client(), followUp.workflowId);
    else await project.workflow(followUp).terminate('by hand');
    await letGo(project);
    await project.endWell([await project.start('job', { key: 'next' })]);
    const ending = how === 'deleted' ? { type: 'FollowUpNotFound' } : { delivered: 'unknown' };
    await expect(followUp.result()).rejects.toMatchObject(ending);
  });

  test('skips signals that make no sense, and refuses invalid updates', async () => {
    const project = newProject();
    const followUp = await startWaiting(project);
    const workflow = project.workflow(followUp);
    await sendNonsense(client(), followUp.workflowId, ['wake', 'pollNow', 'budgetReply'], ['resolveDelivery']);
    await readsAllSignals(workflow);
    await expect(workflow.executeUpdate('resolveDelivery', { args: ['sent'] })).rejects.toThrow();
    await letGo(project);
    await project.endWell([followUp]);
  });
});

describe.concurrent.each(['first', 'last'] as const)('a follow-up that is reset to its %s task', (point) => {
  const reset = ({ workflowId }: StartedFollowUp) => resetWorkflow(client(), workflowId, point);

  test('keeps its place in line, and is sent once, if it was waiting', async () => {
    const project = newProject();
    const [first, second] = [await startWaiting(project, 'first'), await startWaiting(project, 'second')];
    await eventually('it is behind', async () => (await second.progress()).position === 2);
    await reset(first);
    await reaches(first, 'waiting-for-budget', 'slot');
    const places = (await project.status()).waiting.map(({ workflowId }) => workflowId);
    expect(places).toEqual([first.workflowId, second.workflowId]);
    await letGo(project);
    await project.endWell([first, second]);
  });

  test('is sent once if its message was on its way, and accepts the decision of an operator', async () => {
    const project = newProject();
    project.addEndlessJob();
    const release = project.holdMessages('job', 'recorded');
    const followUp = await project.start('job', { settleTime: '10m' });
    await project.deliveries(1);
    await reset(followUp);
    release();
    // Nobody can tell: the run that knew the job before the send is closed.
    await reaches(followUp, 'reconciling');
    await followUp.resolve('sent');
    await reaches(followUp, 'polling');
    await followUp.cancel();
    await expect(followUp.result()).rejects.toMatchObject({ type: 'Cancelled', delivered: 'unknown' });
    expect(project.ledger).toHaveLength(1);
  });

  test('still says that it was sent if it was watching its job', async () => {
    const project = newProject();
    project.addEndlessJob();
    const followUp = await project.start();
    await reaches(followUp, 'polling');
    await reset(followUp);
    await reaches(followUp, 'polling');
    project.endTurn();
    await project.endWell([followUp]);
  });

  test('reports the same end if it had ended, and takes no later turn of its job for its own', async () => {
    const project = newProject();
    const followUp = await project.start();
    const { sentAt, finishedAt, prLink } = await followUp.result();
    await reset(followUp);
    const again = await followUp.result();
    expect(again).toMatchObject({ status: 'completed', delivery: 'sent', prLink });
    expect(Math.abs(Date.parse(again.sentAt) - Date.parse(sentAt))).toBeLessThanOrEqual(
      Date.parse(finishedAt) - Date.parse(sentAt),
    );
    const next = await project.start();
    const result = await next.result();
    await reset(followUp);
    // The last task has the end of its own turn in its history; the first one has not.
    if (point === 'last') expect(await followUp.result()).toMatchObject({ delivery: 'sent', prLink });
    else await expect(followUp.result()).rejects.toMatchObject({ type: 'Closed', delivered: 'yes' });
    expect(await next.result()).toEqual(result);
    expect(project.delivered).toEqual(['job', 'job']);
  });
});

test.concurrent(
  'a follow-up that is reset to its wait in line, without the signal of its grant, asks again at once',
  async () => {
    const project = newProject();
    const followUp = await startWaiting(project);
    const workflow = project.workflow(followUp);
    const tasks = async () => {
      const { events } = await workflow.fetchHistory();
      return (events ?? []).filter((event) => event.workflowTaskCompletedEventAttributes);
    };
    const waited = (await tasks()).length;
    await workflow.signal('answer', 'which changes nothing');
    await eventually('it has read the signal', async () => (await tasks()).length > waited);
    await letGo(project);
    const { sentAt } = await followUp.result();
    await resetWorkflow(client(), followUp.workflowId, (all) => all[waited], { withoutSignals: true });
    expect(await followUp.result()).toMatchObject({ delivery: 'sent', sentAt });
    expect(project.delivered).toEqual(['job']);
  },
);

test.concurrent('a follow-up whose agent is at work reports a paused activity as its trouble', async () => {
  const project = newProject();
  project.addEndlessJob();
  const followUp = await project.start();
  await reaches(followUp, 'polling');
  const pause = () => onActivities(client(), followUp.workflowId, 'pause');
  await eventually('its watch is paused', async () => (await pause()) === 1);
  const trouble = await eventually('it is named', () => followUp.trouble());
  expect(trouble).toMatchObject({ workflowId: followUp.workflowId, kind: 'activityPaused' });
  expect(trouble.fix).toContain(`temporal activity unpause --workflow-id ${followUp.workflowId}`);
  await isFound(trouble);
  await onActivities(client(), followUp.workflowId, 'unpause');
  project.endTurn();
  await project.endWell([followUp]);
});

describe.concurrent('a second start with a used key', () => {
  test('sends nothing after its follow-up was deleted', { tags: 'long' }, async () => {
    const project = newProject();
    const followUp = await project.start('job', { key: 'key' });
    await followUp.result();
    await deleteWorkflow(client(), followUp.workflowId);
    const isGone = async () =>
      RefusedError.is(await followUp.describe().catch((error: unknown) => error), 'FollowUpNotFound');
    await eventually('it is gone', isGone);
    const again = await project.start('job', { key: 'key' });
    expect(again.alreadyStarted).toBe(false);
    await again.result().catch(() => undefined);
    expect(project.ledger).toHaveLength(1);
  });

  test('sends nothing if it terminates its follow-up during the send, and ends as DeliveryUnknown', async () => {
    const project = newProject();
    project.addJob();
    const release = project.holdMessages('job', 'recorded');
    const followUp = await project.start('job', { key: 'key' });
    await project.deliveries(1);
    await client().workflow.start(WorkflowType.followUp, {
      workflowId: followUp.workflowId,
      taskQueue: operated.stack.taskQueue,
      args: [{ projectId: project.id, jobId: 'job', prompt: 'message to job', ...FAST }],
      workflowIdConflictPolicy: 'TERMINATE_EXISTING',
    });
    await expect(followUp.result()).rejects.toMatchObject({ type: 'DeliveryUnknown', delivered: 'unknown' });
    release();
    expect(project.ledger).toHaveLength(1);
  });
});
