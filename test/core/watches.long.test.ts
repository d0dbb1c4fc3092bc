import { describe, expect, test } from 'vitest';
import type { FollowUpResult } from '../../src/contract/index.js';
import { eventually } from '../support/eventually.js';
import { pendingActivity, seenOf } from './support/activity-buttons.js';
import { operatedCore, type Project, reaches } from './support/operated-core.js';

const inProcess = operatedCore();
const onServer = operatedCore({ maxWatches: 0 });
const restarted = operatedCore();

const slowly = { poll: { initialInterval: '3s', maxInterval: '3s', backoffCoefficient: 1 } };

type FollowUp = Awaited<ReturnType<Project['start']>>;

/** What the heartbeat of a pending watch says once it has seen so many polls. A heartbeat may take a minute. */
async function seenAfter(followUp: FollowUp, polls: number) {
  return eventually(`${followUp.workflowId} shows ${polls} polls`, async () => {
    const seen = seenOf(await pendingActivity(followUp, 'watchJob'));
    return seen && seen.polls >= polls ? seen : undefined;
  });
}

/** Reads of a job, of which up to two come before the send. */
const readsOf = ({ core, id }: Project, jobId: string) => core.simulator.job(id, jobId)?.gets ?? 0;

/** How many watches a follow-up has had. */
async function watchesOf(followUp: FollowUp): Promise<number> {
  const { events } = await followUp.fetchHistory();
  const types = (events ?? []).map(
    ({ activityTaskScheduledEventAttributes: scheduled }) => scheduled?.activityType?.name,
  );
  return types.filter((type) => type === 'watchJob').length;
}

describe.concurrent('a watch', () => {
  test('shows in its heartbeat how often it polled, when it polls next, and the job', async () => {
    const project = inProcess.newProject();
    project.addEndlessJob('job');
    const followUp = await project.start();
    const { job, nextPollAt, lastError } = await seenAfter(followUp, 2);
    expect(job).toMatchObject({ id: 'job', status: 'active' });
    expect(Math.abs(Date.parse(nextPollAt) - Date.now())).toBeLessThan(60_000);
    expect(lastError).toBeUndefined();
    project.endTurn('job');
    await project.expectGoodEnds([followUp]);
  });

  test('shows the error of its last poll', async () => {
    const project = inProcess.newProject();
    project.addEndlessJob('job');
    const followUp = await project.start();
    await reaches(followUp, 'polling');
    const { simulator } = inProcess.core;
    simulator.failNext({ method: 'GET', projectId: project.id, how: { status: 500 }, times: 10_000 });
    // A heartbeat reaches the server within a minute, and after half a minute the follow-up says it, too.
    const { lastError } = await reaches(followUp, 'polling', 'service');
    expect(lastError?.message).toContain('500');
    const seen = await eventually('the watch shows the error', async () => {
      const shown = seenOf(await pendingActivity(followUp, 'watchJob'));
      return shown?.lastError === undefined ? undefined : shown;
    });
    expect(seen.lastError).toContain('500');
    expect(seen.polls).toBeGreaterThan(2);
    simulator.clearFaults();
    project.endTurn('job');
    await project.expectGoodEnds([followUp]);
  });

  test.each(['in its process', 'on the server'])(
    'that sleeps %s ends with the turn, and is one activity',
    async (where) => {
      const project = (where === 'on the server' ? onServer : inProcess).newProject();
      await project.openBudget();
      project.addEndlessJob('job');
      const followUp = await project.start('job', slowly);
      await eventually('it has polled', () => readsOf(project, 'job') >= 5);
      project.endTurn('job');
      const [result] = await project.expectGoodEnds([followUp]);
      expect(result?.polls).toBeGreaterThanOrEqual(3);
      // However often the server starts it again.
      expect(await watchesOf(followUp)).toBe(1);
    },
  );
});

test('watches that sleep are handed back when their worker stops, and go on with what they have seen', async () => {
  const project = restarted.newProject();
  const jobs = ['a', 'b', 'c'];
  for (const job of [...jobs, 'patient']) project.addEndlessJob(job);
  const followUps = await Promise.all(jobs.map((job) => project.start(job, slowly)));
  const patient = await project.start('patient', { poll: { initialInterval: '1h', maxInterval: '1h' } });
  await reaches(patient, 'polling');
  await eventually('all have polled', () => jobs.every((job) => readsOf(project, job) >= 5));
  const startMs = performance.now();
  await restarted.core.restartWorkers();
  // They would have slept for up to an hour.
  expect(performance.now() - startMs).toBeLessThan(30_000);
  const seen = await Promise.all(followUps.map((followUp) => seenAfter(followUp, 3)));
  expect(seen.map(({ job }) => job?.status)).toEqual(['active', 'active', 'active']);
  const { nextPollAt } = await seenAfter(patient, 0);
  expect(Date.parse(nextPollAt) - Date.now()).toBeGreaterThan(3_000_000);
  for (const job of jobs) project.endTurn(job);
  const results = (await Promise.all(followUps.map((followUp) => followUp.result()))) as FollowUpResult[];
  expect(results.map(({ delivery, observedActive }) => ({ delivery, observedActive }))).toEqual(
    jobs.map(() => ({ delivery: 'sent', observedActive: true })),
  );
  expect(results.every(({ polls }, index) => polls > (seen[index]?.polls ?? 0))).toBe(true);
  for (const followUp of followUps) expect(await watchesOf(followUp)).toBe(1);
  await patient.terminate();
});
