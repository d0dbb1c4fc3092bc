import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { startStack, type Stack } from '../support/stack.js';

const HOUR = { initialInterval: '1h', maxInterval: '1h' } as const;
const OFTEN = { initialInterval: '300ms', maxInterval: '300ms' } as const;

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({
    address: inject('temporalAddress'),
    simulator: { turn: { minMs: 1_000, maxMs: 1_500 } },
    env: { AGENT_JOBS_GET_TIMEOUT: '3s' },
  });
});
afterAll(() => stack.stop());

/** A follow-up to its own job. By default, the job works for ever and has one poll an hour. */
async function follow(more: object = {}, job: object = { behaviour: { neverEnds: true } }, on = stack) {
  const target = { projectId: `watch-${randomUUID().slice(0, 8)}`, jobId: 'job' };
  on.simulator.addJob({ ...target, ...job });
  const followUp = await on.followUps.start({ ...target, prompt: 'x', poll: HOUR, ...more });
  return { ...target, followUp, handle: on.client.workflow.getHandle(followUp.workflowId) };
}
type Followed = Awaited<ReturnType<typeof follow>>;

const isAsleep = ({ followUp }: Followed) =>
  eventually('the watch waits for its next poll', async () => {
    const { nextPollAt = '' } = await followUp.progress();
    return Date.parse(nextPollAt) > Date.now() + 1_800_000;
  });
const isPolling = ({ followUp }: Followed) =>
  eventually('the agent was seen at work', async () => (await followUp.progress()).jobStatus === 'active');
const hasPolled = ({ followUp }: Followed) =>
  eventually('it has polled', async () => (await followUp.progress()).polls > 0);
const endTurn = ({ projectId }: Followed) =>
  stack.simulator.changeJob({ projectId, jobId: 'job', status: 'completed', prLink: 'https://git.example/pull/2' });
const eventCount = async ({ handle }: Followed) => (await handle.fetchHistory()).events?.length ?? 0;

describe.concurrent('a follow-up that watches its job', () => {
  test('shows when it polls next', async () => {
    const followed = await follow();
    await isAsleep(followed);
    expect(await followed.followUp.progress()).toMatchObject({ state: 'polling', polls: 0 });
    await followed.followUp.cancel();
  });

  test('reports each poll in its progress and in its heartbeat, without an event', async () => {
    const followed = await follow({ poll: OFTEN });
    const { followUp, handle } = followed;
    await isPolling(followed);
    const before = await followUp.progress();
    const events = await eventCount(followed);
    const progress = await eventually('three more polls', async () => {
      const now = await followUp.progress();
      return now.polls >= before.polls + 3 ? now : undefined;
    });
    expect(Date.parse(progress.jobSeenAt ?? '')).toBeGreaterThan(Date.parse(before.jobSeenAt ?? ''));
    const { raw } = await handle.describe();
    const watch = raw.pendingActivities?.find(({ activityType }) => activityType?.name === 'watchJob');
    const seen: unknown = JSON.parse(Buffer.from(watch?.heartbeatDetails?.payloads?.[0]?.data ?? []).toString());
    expect(seen).toMatchObject({ observedActive: true, job: { status: 'active' } });
    expect(await eventCount(followed)).toBe(events);
    await followUp.cancel();
  });

  test('polls at once when told to while it sleeps, and sleeps again if nothing is new', async () => {
    const followed = await follow({ settleTime: 0 });
    await isAsleep(followed);
    await followed.followUp.pollNow();
    await hasPolled(followed);
    await isAsleep(followed);
    endTurn(followed);
    await followed.followUp.pollNow();
    expect(await followed.followUp.result()).toMatchObject({ status: 'completed', prLinkChanged: true });
  });

  test('is cancelled at once, and says that its message was delivered', async () => {
    const followed = await follow();
    await isAsleep(followed);
    await followed.followUp.cancel();
    const error = await followed.followUp.result().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ type: 'Cancelled', delivered: 'yes' });
  });

  test('polls once more when its time is over', { tags: 'long' }, async () => {
    const { followUp } = await follow({ jobTimeout: '11s', settleTime: 0 }, { behaviour: { turnFactor: 2 } });
    expect(await followUp.result()).toMatchObject({ status: 'completed', polls: 1 });
    const late = await follow({ jobTimeout: '2s' });
    const error = await late.followUp.result().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ type: 'JobTimeout', delivered: 'yes' });
    expect(stack.simulator.job(late.projectId, 'job')?.status).toBe('active');
  });
});

// Not beside the others, because it ends all faults.
test(
  'a follow-up whose job cannot be read for a while says so, and polls on as soon as it can be read',
  { tags: 'long' },
  async () => {
    const followed = await follow({ poll: { initialInterval: '300ms', maxInterval: '3s' } });
    const { projectId, followUp } = followed;
    await isPolling(followed);
    stack.simulator.failNext({ method: 'GET', projectId, jobId: 'job', how: { status: 500 }, times: 1_000 });
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
    stack.simulator.clearFaults();
    await eventually('it can be read', async () => (await followUp.progress()).waitReason === undefined);
    await followUp.cancel();
  },
);

test('a watch without a place in the process waits at the server, and shows and does the same', async () => {
  const own = await startStack({
    address: inject('temporalAddress'),
    simulator: { turn: { minMs: 1_000, maxMs: 1_500 } },
    env: { FOLLOW_UP_WATCHES: '0' },
  });
  onTestFinished(() => own.stop());
  const followed = await follow({ settleTime: 0 }, { behaviour: { neverEnds: true } }, own);
  await isAsleep(followed);
  await followed.followUp.pollNow();
  await hasPolled(followed);
  await isAsleep(followed);
  const startedMs = performance.now();
  await own.stopWorker();
  expect(performance.now() - startedMs).toBeLessThan(10_000);
  await followed.handle.terminate();
});
