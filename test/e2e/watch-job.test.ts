import { describe, expect, inject, onTestFinished, test } from 'vitest';
import type { StartInput } from '../../src/client/index.js';
import { eventually } from '../support/eventually.js';
import { useStack } from '../support/project.js';
import { FAST, startStack } from '../support/stack.js';

const HOUR = { initialInterval: '1h', maxInterval: '1h' } as const;

const inProcess = useStack();
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

const isAsleep = ({ followUp }: Pick<Followed, 'followUp'>) =>
  eventually('the watch waits for its next poll', async () => {
    const { nextPollAt = '' } = await followUp.progress();
    return Date.parse(nextPollAt) > Date.now() + 1_800_000;
  });

describe.concurrent.each([
  ['in its process', inProcess],
  ['at the server', onServer],
])('a watch that sleeps %s', (_, on) => {
  test('shows when it polls next, polls at once on request, and sleeps again if nothing is new', async () => {
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

  test('ends at once when it is cancelled, and says that its message was delivered', async () => {
    const followed = await follow({}, on);
    await isAsleep(followed);
    await followed.followUp.cancel();
    await expect(followed.followUp.result()).rejects.toMatchObject({ type: 'Cancelled', delivered: 'yes' });
  });
});

test.concurrent(
  'a watch reports each poll in its progress and its heartbeat, without an event',
  { tags: 'long' },
  async () => {
    const followed = await follow({ poll: FAST.poll });
    const { followUp, workflow } = followed;
    await eventually('the agent was seen at work', async () => (await followUp.progress()).jobStatus === 'active');
    const before = await followUp.progress();
    const eventCount = async () => (await workflow.fetchHistory()).events?.length;
    const events = await eventCount();
    const progress = await eventually('three more polls', async () => {
      const now = await followUp.progress();
      return now.polls >= before.polls + 3 ? now : undefined;
    });
    expect(Date.parse(progress.jobSeenAt ?? '')).toBeGreaterThan(Date.parse(before.jobSeenAt ?? ''));
    const watch = (await workflow.describe()).raw.pendingActivities?.[0];
    const observation: unknown = JSON.parse(Buffer.from(watch?.heartbeatDetails?.payloads?.[0]?.data ?? []).toString());
    expect(observation).toMatchObject({ observedActive: true, job: { status: 'active' } });
    expect(await eventCount()).toBe(events);
    await followUp.cancel();
  },
);

test('a sleeping watch is handed back when its worker stops, and continues on the next worker', async () => {
  const address = inject('temporalAddress');
  const first = await startStack({ address });
  onTestFinished(() => first.stop());
  const { baseUrl: AGENT_JOBS_BASE_URL, apiKey: AGENT_JOBS_API_KEY } = first.simulator;
  const job = { projectId: `handed-${first.taskQueue}`, jobId: 'job' };
  first.simulator.addJob({ ...job, behaviour: { neverEnds: true } });
  const followUp = await first.followUps.start({ ...job, prompt: 'x', poll: HOUR, settleTime: 0 });
  await isAsleep({ followUp });
  await first.stopWorker();
  const env = { AGENT_JOBS_BASE_URL, AGENT_JOBS_API_KEY };
  const second = await startStack({ address, taskQueue: first.taskQueue, env });
  onTestFinished(() => second.stop());
  await isAsleep({ followUp });
  first.simulator.changeJob({ ...job, status: 'completed', prLink: 'https://git.example/pull/2' });
  await followUp.pollNow();
  expect(await followUp.result()).toMatchObject({ status: 'completed', delivery: 'sent' });
  expect(first.simulator.ledger).toHaveLength(1);
});
