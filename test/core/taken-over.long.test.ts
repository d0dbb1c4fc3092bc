import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { onActivities, resetToTask } from '../support/buttons.js';
import { FollowUpHandle as LibraryHandle } from '../../src/client/follow-up.js';
import { pollNowSignal } from '../../src/contract/index.js';
import { failureOf } from '../support/failure-of.js';
import { eventually } from '../support/eventually.js';
import { operatedCore, reaches } from './support/operated-core.js';

const operated = operatedCore({ sendTimeoutMs: 1_000, leaseMs: 3_000, drainMs: 500 });
const { newProject } = operated;
const client = () => operated.core.client;

test('finding D1: a repeated ask that a reset takes over asks as a run that may have sent', async () => {
  const project = newProject();
  await project.openBudget({ windowMs: 1_000 });
  await project.budget.terminate();
  const followUp = await project.start('job');
  await reaches(followUp, 'blocked', 'budget-stopped');
  await eventually('asks', async () => (await followUp.describe()).raw.pendingActivities?.length === 1);
  await followUp.signal('budgetAnswer', 'rubbish');
  await sleep(1_000);
  const { events } = await followUp.fetchHistory();
  const task = (events ?? []).filter((event) => event.workflowTaskCompletedEventAttributes).at(-1);
  const { runId } = await followUp.describe();
  await project.openBudget({ windowMs: 1_000 });
  await onActivities(client(), followUp.workflowId, 'reset');
  await followUp.result();
  expect(project.delivered).toEqual(['job']);
  // Its budget forgets it.
  await project.budget.terminate();
  await client().workflowService.deleteWorkflowExecution({
    namespace: 'default',
    workflowExecution: { workflowId: project.budget.workflowId },
  });
  await sleep(7_000);
  await project.openBudget({ windowMs: 1_000 });
  await resetToTask(client(), { workflowId: followUp.workflowId, runId }, task);
  expect(await failureOf(followUp.result())).toMatchObject({ type: 'Closed', delivered: 'unknown' });
  expect(project.delivered).toEqual(['job']);
}, 90_000);

test('finding D4: after pollNow, people see the look that was made, not that of the watch before', async () => {
  const project = newProject();
  project.addEndlessJob('job');
  const followUp = await project.start('job', { poll: { initialInterval: '60s', maxInterval: '60s' } });
  await reaches(followUp, 'polling');
  const handle = new LibraryHandle(client(), followUp.workflowId);
  // After ten seconds, a job at work is at work on this message.
  await sleep(12_000);
  await followUp.signal(pollNowSignal);
  await eventually('the look is seen', async () => {
    const { polls, job, jobStatus, nextPollAt = '' } = await handle.progress();
    expect({ polls, status: job?.status, jobStatus }).toEqual({ polls: 1, status: 'active', jobStatus: 'active' });
    expect(Date.parse(nextPollAt) - Date.now()).toBeGreaterThan(40_000);
    return true;
  });
  await followUp.cancel();
}, 60_000);
