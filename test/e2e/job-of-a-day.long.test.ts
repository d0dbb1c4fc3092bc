import { expect, onTestFinished, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { describeWith, findMissing } from '../support/requirements.js';
import { startStack } from '../support/stack.js';
import { createTimeSkippingEnvironment, withoutList } from '../support/time-skipping-server.js';

const DAY_MS = 86_400_000;
const missing = await findMissing(['time-skipping-server']);

describeWith(missing)('a job that takes a day', () => {
  test('is polled by timers of the server without an event per poll, and its pull request is in the result', async () => {
    const environment = await createTimeSkippingEnvironment({ env: process.env });
    onTestFinished(() => environment.teardown());
    // No watch sleeps in the worker, whose clock nobody can skip.
    const stack = await startStack({
      address: environment.address,
      env: { FOLLOW_UP_WATCHES: '0' },
      worker: { interceptors: { activity: [withoutList] } },
    });
    onTestFinished(() => stack.stop());
    const job = { projectId: 'demo', jobId: 'job' };
    stack.simulator.addJob({ ...job, behaviour: { neverEnds: true } });
    const poll = { initialInterval: '1h', maxInterval: '1h' };
    const { workflowId } = await stack.followUps.start({ ...job, prompt: 'x', poll, jobTimeout: '2d' });
    const handle = environment.client.workflow.getHandle(workflowId);
    const result = handle.result() as Promise<{ sentAt: string; finishedAt: string; polls: number }>;
    result.catch(() => undefined);
    const started = await handle.describe();
    await eventually('a day has passed', async () => {
      const passedMs = (await environment.currentTimeMs()) - started.startTime.getTime();
      return passedMs > DAY_MS;
    });
    stack.simulator.changeJob({ ...job, status: 'completed', prLink: 'https://git.example/pull/2' });
    const { sentAt, finishedAt, polls, ...rest } = await result;
    expect(rest).toMatchObject({ status: 'completed', prLink: 'https://git.example/pull/2', delivery: 'sent' });
    expect(Date.parse(finishedAt) - Date.parse(sentAt)).toBeGreaterThan(DAY_MS);
    // On a busy machine, more time is skipped between two polls.
    expect(polls).toBeGreaterThan(10);
    expect((await handle.fetchHistory()).events?.length).toBeLessThanOrEqual(32);
  }, 300_000);
});
