import { describe, expect, inject, onTestFinished, test } from 'vitest';
import type { StartInput } from '../../src/client/index.js';
import { eventually } from '../support/eventually.js';
import { useStack } from '../support/project.js';
import { startStack } from '../support/stack.js';

const HOUR = { initialInterval: '1h', maxInterval: '1h' } as const;
const OFTEN = { initialInterval: '300ms', maxInterval: '300ms' } as const;

const inProcess = useStack({ env: { AGENT_JOBS_GET_TIMEOUT: '3s' } });
// A watch without a place in the process waits at the server.
const onServer = useStack({ env: { FOLLOW_UP_WATCHES: '0' } });

/** A follow-up to a job that works until the test ends its turn, with one poll an hour. */
async function follow(more: Partial<StartInput> = {}, on = inProcess) {
  const project = on.newProject();
  project.addEndlessJob();
  const followUp = await project.start('job', { poll: HOUR, ...more });
  return { project, followUp, workflow: project.workflow(followUp) };
}
type Followed = Awaited<ReturnType<typeof follow>>;

const isAsleep = ({ followUp }: Followed) =>
  eventually('the watch waits for its next poll', async () => {
    const { nextPollAt = '' } = await followUp.progress();
    return Date.parse(nextPollAt) > Date.now() + 1_800_000;
  });
const isPolling = ({ followUp }: Followed) =>
  eventually('the agent was seen at work', async () => (await followUp.progress()).jobStatus === 'active');

describe.concurrent.each([
  ['in its process', inProcess],
  ['at the server', onServer],
])('a watch that sleeps %s', (_, on) => {
  test('shows when it polls next, polls at once when told to, and sleeps again if nothing is new', async () => {
    const followed = await follow({}, on);
    const { project, followUp, workflow } = followed;
    await isAsleep(followed);
    expect(await followUp.progress()).toMatchObject({ state: 'polling', polls: 0 });
    await followUp.pollNow();
    await eventually('it has polled', async () => (await followUp.progress()).polls > 0);
    await isAsleep(followed);
    const watch = (await workflow.describe()).raw.pendingActivities?.[0];
    expect(watch?.activityType?.name).toBe('watchJob');
    project.endTurn();
    await followUp.pollNow();
    expect(await followUp.result()).toMatchObject({ status: 'completed', prLinkChanged: true });
  });

  test('is cancelled at once, and says that its message was delivered', async () => {
    const followed = await follow({}, on);
    await isAsleep(followed);
    await followed.followUp.cancel();
    await expect(followed.followUp.result()).rejects.toMatchObject({ type: 'Cancelled', delivered: 'yes' });
  });
});

test.concurrent('a watch polls once more when its time is over', { tags: 'long' }, async () => {
  const { project, followUp } = await follow({ jobTimeout: '2s' });
  await expect(followUp.result()).rejects.toMatchObject({ type: 'JobTimeout', delivered: 'yes' });
  expect(inProcess.stack.simulator.job(project.id, 'job')?.status).toBe('active');
  const late = await follow({ jobTimeout: '15s' });
  await late.project.deliveries(1);
  late.project.endTurn();
  expect(await late.followUp.result()).toMatchObject({ status: 'completed', polls: 1 });
});

test.concurrent(
  'a watch reports each poll in its progress and its heartbeat, without an event',
  { tags: 'long' },
  async () => {
    const followed = await follow({ poll: OFTEN });
    const { followUp, workflow } = followed;
    await isPolling(followed);
    const before = await followUp.progress();
    const eventCount = async () => (await workflow.fetchHistory()).events?.length;
    const events = await eventCount();
    const progress = await eventually('three more polls', async () => {
      const now = await followUp.progress();
      return now.polls >= before.polls + 3 ? now : undefined;
    });
    expect(Date.parse(progress.jobSeenAt ?? '')).toBeGreaterThan(Date.parse(before.jobSeenAt ?? ''));
    const watch = (await workflow.describe()).raw.pendingActivities?.[0];
    const seen: unknown = JSON.parse(Buffer.from(watch?.heartbeatDetails?.payloads?.[0]?.data ?? []).toString());
    expect(seen).toMatchObject({ observedActive: true, job: { status: 'active' } });
    expect(await eventCount()).toBe(events);
    await followUp.cancel();
  },
);

// Not beside the others, because it ends all faults.
test(
  'a follow-up whose job cannot be read for a while says so, and polls on once it can',
  { tags: 'long' },
  async () => {
    const followed = await follow({ poll: { initialInterval: '300ms', maxInterval: '3s' } });
    const { project, followUp } = followed;
    await isPolling(followed);
    inProcess.stack.simulator.failNext({ method: 'GET', projectId: project.id, how: { status: 500 }, times: 1_000 });
    await eventually('the last error shows', async () =>
      /500/.test((await followUp.progress()).lastError?.message ?? ''),
    );
    const inTrouble = await eventually('it cannot be read', async () => {
      const progress = await followUp.progress();
      return progress.waitReason === 'service' ? progress : undefined;
    });
    expect(inTrouble).toMatchObject({ state: 'polling', jobStatus: 'active' });
    await eventually('it shows a later poll', async () => {
      const { nextPollAt = '' } = await followUp.progress();
      return Date.parse(nextPollAt) > Date.parse(inTrouble.learnedAt);
    });
    inProcess.stack.simulator.clearFaults();
    await eventually('it can be read', async () => (await followUp.progress()).waitReason === undefined);
    await followUp.cancel();
  },
);

test('watches that sleep are handed back when their worker stops, and go on at the next one', async () => {
  const address = inject('temporalAddress');
  const first = await startStack({ address });
  onTestFinished(() => first.stop());
  const { baseUrl: AGENT_JOBS_BASE_URL, apiKey: AGENT_JOBS_API_KEY } = first.simulator;
  const job = { projectId: `handed-${first.taskQueue}`, jobId: 'job' };
  first.simulator.addJob({ ...job, behaviour: { neverEnds: true } });
  const followUp = await first.followUps.start({ ...job, prompt: 'x', poll: HOUR, settleTime: 0 });
  const isAsleepAgain = () =>
    eventually(
      'it sleeps',
      async () => Date.parse((await followUp.progress()).nextPollAt ?? '') > Date.now() + 1_800_000,
    );
  await isAsleepAgain();
  await first.stopWorker();
  const env = { AGENT_JOBS_BASE_URL, AGENT_JOBS_API_KEY };
  const second = await startStack({ address, taskQueue: first.taskQueue, env });
  onTestFinished(() => second.stop());
  await isAsleepAgain();
  first.simulator.changeJob({ ...job, status: 'completed', prLink: 'https://git.example/pull/2' });
  await followUp.pollNow();
  expect(await followUp.result()).toMatchObject({ status: 'completed', delivery: 'sent' });
  expect(first.simulator.ledger).toHaveLength(1);
});
