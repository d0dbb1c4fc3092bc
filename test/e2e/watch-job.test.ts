import { randomUUID } from 'node:crypto';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { take } from '../../src/client/list.js';
import { eventually } from '../support/eventually.js';
import { startStack, type Stack } from '../support/stack.js';

/** `PENDING_ACTIVITY_STATE_STARTED`: an attempt is under way. */
const STARTED = 2;
const HOUR = { initialInterval: '1h', maxInterval: '1h' } as const;

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({
    address: inject('temporalAddress'),
    simulator: { turn: { minMs: 1_000, maxMs: 1_500 } },
    env: { AGENT_JOBS_GET_TIMEOUT: '3s' },
  });
});
afterAll(() => stack.stop());

/** A follow-up to its own job. By default, the job works for ever and has one look an hour. */
async function follow(more: object = {}, job: object = { behaviour: { neverEnds: true } }) {
  const target = { projectId: `watch-${randomUUID().slice(0, 8)}`, jobId: 'job' };
  stack.simulator.addJob({ ...target, ...job });
  const followUp = await stack.followUps.start({ ...target, prompt: 'x', poll: HOUR, ...more });
  return { ...target, followUp, handle: stack.client.workflow.getHandle(followUp.workflowId) };
}
type Followed = Awaited<ReturnType<typeof follow>>;

const watchOf = async ({ handle }: Followed) => {
  const { raw } = await handle.describe();
  return raw.pendingActivities?.find(({ activityType }) => activityType?.name === 'watchJob');
};
const isAsleep = (followed: Followed) =>
  eventually('the watch waits for its next look', async () => Boolean((await watchOf(followed))?.lastFailure));
type Watch = Awaited<ReturnType<typeof watchOf>>;
const isLookingFor = (watch: Watch, ms: number) =>
  watch !== undefined && Number(watch.state) === STARTED && Date.now() - tsToMs(watch.lastStartedTime) > ms;
const endTurn = ({ projectId }: Followed) =>
  stack.simulator.changeJob({ projectId, jobId: 'job', status: 'completed', prLink: 'https://git.example/pull/2' });
const eventCount = async ({ handle }: Followed) => (await handle.fetchHistory()).events?.length ?? 0;

describe.concurrent('a follow-up that watches its job', () => {
  test('shows when it polls next while it waits for that, and is not overdue', async () => {
    const followed = await follow();
    await isAsleep(followed);
    const { lastStartedTime, nextAttemptScheduleTime, scheduledTime } = (await watchOf(followed)) ?? {};
    const nextPollAt = new Date(tsToMs(nextAttemptScheduleTime ?? scheduledTime)).toISOString();
    const [listed] = await take(stack.followUps.list({ project: followed.projectId }), 1);
    for (const shown of [await followed.followUp.progress(), listed?.watch]) {
      expect(shown, `last started at ${JSON.stringify(lastStartedTime)}`).toMatchObject({ nextPollAt });
      expect(shown).not.toHaveProperty('overdue');
    }
    expect(Date.parse(nextPollAt)).toBeGreaterThan(Date.now() + 1_800_000);
    await followed.followUp.cancel();
  });

  test(
    'reports each look in the pending activity and in its progress, without an event',
    { tags: 'long' },
    async () => {
      const followed = await follow({ poll: { initialInterval: '300ms', maxInterval: '300ms' } });
      const { followUp } = followed;
      await eventually(
        'it has seen the agent at work',
        async () => (await followUp.progress()).job?.status === 'active',
      );
      const before = await followUp.progress();
      const events = await eventCount(followed);
      await eventually('three more looks', async () => (await followUp.progress()).polls >= before.polls + 3);
      const progress = await followUp.progress();
      expect(Date.parse(progress.nextPollAt ?? '')).toBeGreaterThan(Date.parse(progress.sentAt ?? ''));
      expect(Date.parse(progress.jobSeenAt ?? '')).toBeGreaterThan(Date.parse(before.jobSeenAt ?? ''));
      expect((await watchOf(followed))?.lastFailure?.message).toMatch(/^job is active; look \d+; next in \d+ ms$/);
      expect(await eventCount(followed)).toBe(events);
      await followUp.cancel();
    },
  );

  test('shows its next poll and the last error in the list', { tags: 'long' }, async () => {
    const followed = await follow({ poll: { initialInterval: '300ms', maxInterval: '300ms' } });
    const { projectId, followUp } = followed;
    const watchInList = async () => (await take(stack.followUps.list({ project: projectId }), 1))[0]?.watch;
    const watch = await eventually('the list has its polls and the next one', async () => {
      const listed = await watchInList();
      return listed?.nextPollAt !== undefined && listed.polls >= 2 ? listed : undefined;
    });
    expect(Date.parse(watch.nextPollAt ?? '')).toBeGreaterThan(Date.parse(watch.jobSeenAt ?? ''));
    stack.simulator.failNext({ method: 'GET', projectId, jobId: 'job', kind: 'status', statusCode: 500, times: 99 });
    const { message } = await eventually('the list has the error', async () => (await watchInList())?.lastError);
    expect(message).toContain('500');
    await followUp.cancel();
  });

  test('looks at once when told to while it waits, and waits again if nothing is new', async () => {
    const followed = await follow();
    await isAsleep(followed);
    await followed.followUp.pollNow();
    await eventually('it has seen the agent at work', async () => {
      const { job } = await followed.followUp.progress();
      return job?.status === 'active';
    });
    await isAsleep(followed);
    const { polls } = await followed.followUp.progress();
    await followed.followUp.pollNow();
    await eventually('it has looked', async () => (await followed.followUp.progress()).polls > polls);
    endTurn(followed);
    await eventually('it ends', async () => {
      const { status } = await followed.handle.describe();
      if (status.name === 'RUNNING') await followed.followUp.pollNow();
      return status.name === 'COMPLETED';
    });
  });

  test('looks once more when told to while a look is under way', { tags: 'long' }, async () => {
    const followed = await follow({ poll: { initialInterval: '300ms', maxInterval: '300ms' } });
    const { projectId, followUp } = followed;
    await eventually('it polls', async () => (await followUp.progress()).job?.status === 'active');
    stack.simulator.failNext({ method: 'GET', projectId, jobId: 'job', kind: 'hangBefore', times: 1 });
    await eventually('a look hangs', async () => isLookingFor(await watchOf(followed), 500));
    endTurn(followed);
    await followUp.pollNow();
    await eventually('it looked', async () => (await followUp.progress()).job?.status === 'completed');
    expect(await followUp.result()).toMatchObject({ status: 'completed', delivery: 'sent' });
  });

  test('is cancelled at once, and says that its message was delivered', async () => {
    const followed = await follow();
    await isAsleep(followed);
    await followed.followUp.cancel();
    const error = await followed.followUp.result().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ type: 'Cancelled', delivered: 'yes' });
  });

  test('looks once more when its time is over', { tags: 'long' }, async () => {
    // More than 10 s after the send, because an earlier end needs one more look.
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
  'a follow-up shows as blocked after three failed reads, and continues as soon as the job can be read',
  { tags: 'long' },
  async () => {
    const followed = await follow({ poll: { initialInterval: '300ms', maxInterval: '300ms' } });
    const { projectId, followUp } = followed;
    await eventually('it polls', async () => (await followUp.progress()).job?.status === 'active');
    stack.simulator.failNext({ method: 'GET', projectId, jobId: 'job', kind: 'status', statusCode: 500, times: 1_000 });
    const { waitReason, nextTryAt } = await eventually('it is blocked', async () => {
      const progress = await followUp.progress();
      return progress.state === 'blocked' ? progress : undefined;
    });
    expect(waitReason).toBe('service');
    await eventually('the next try is that of a later look', async () => {
      const progress = await followUp.progress();
      return Date.parse(progress.nextTryAt ?? '') > Date.parse(nextTryAt ?? '');
    });
    stack.simulator.clearFaults();
    await eventually('it polls again', async () => (await followUp.progress()).state === 'polling');
    await followUp.cancel();
  },
);
