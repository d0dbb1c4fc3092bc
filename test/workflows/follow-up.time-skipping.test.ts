import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import {
  parseFollowUpWorkflowId,
  pollNowSignal,
  progressQuery,
  projectBudgetWorkflowId,
  resolveDeliveryUpdate,
} from '../../src/contract/index.js';
import { failureOf } from '../support/failure-of.js';
import { record } from '../support/histories.js';
import { describeWith, findMissing } from '../support/requirements.js';
import { startTimeSkippingRig, type TimeSkippingRig } from '../support/time-skipping.js';

const BEFORE = { id: 'j', status: 'completed', prLink: 'https://git.example/pull/1' };
const ACTIVE = { id: 'j', status: 'active', prLink: null };
const AFTER = { id: 'j', status: 'completed', prLink: 'https://git.example/pull/2' };

const SUITE = 'a follow-up, with time skipped,';

describeWith(await findMissing(['time-skipping-server']))(SUITE, () => {
  let rig: TimeSkippingRig;
  let count = 0;
  /** Whether the next send's completion never reaches the server, as when the worker dies. */
  let losesCompletion = false;
  /** How many attempts of an activity end before they begin, as when their worker dies. */
  const deathsBefore = { sendFollowUp: 0, tellBudget: 0 };
  /** A project of its own for each test: budgets do not mix. */
  const target = () => ({ projectId: `p${++count}`, jobId: `job-${count}`, prompt: `message ${count}` });
  const isDying = (type: string): type is keyof typeof deathsBefore =>
    Object.entries(deathsBefore).some(([name, deaths]) => name === type && deaths > 0);
  const receivedBy = (jobId: string) => rig.service.received.filter((message) => message.jobId === jobId).length;

  beforeAll(async () => {
    rig = await startTimeSkippingRig({
      budget: { limit: 1 },
      beforeActivity: (type) => {
        if (!isDying(type)) return;
        deathsBefore[type] -= 1;
        throw new Error('the worker died');
      },
      afterActivity: (type) => {
        if (type !== 'sendFollowUp' || !losesCompletion) return;
        losesCompletion = false;
        throw new Error('completion lost');
      },
    });
  });
  afterEach(async ({ task }) => {
    const name = task.suite && task.suite.name !== SUITE ? `${task.suite.name} ${task.name}` : task.name;
    for (const [index, { workflowId }] of rig.started.entries()) {
      await record(rig.client, `${name} ${index + 1}`, workflowId);
      const { projectId } = parseFollowUpWorkflowId(workflowId) ?? {};
      if (index === 0 && projectId) {
        await record(rig.client, `budget of ${name}`, projectBudgetWorkflowId(projectId)).catch(() => undefined);
      }
    }
    rig.started.length = 0;
  });
  afterAll(() => rig.stop());

  describe('on its way to the result', () => {
    test('sends once, sees the agent at work, and gives the new pull request', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE, ACTIVE, ACTIVE, ACTIVE, AFTER);
      const result = await rig.end(await rig.start(input));
      expect(result).toMatchObject({
        status: 'completed',
        prLink: AFTER.prLink,
        prLinkChanged: true,
        delivery: 'sent',
        observedActive: true,
        polls: 4,
        job: AFTER,
      });
      expect(receivedBy(input.jobId)).toBe(1);
    });

    test('does not take the old status for its own until the settle time has passed, and says so', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE);
      const result = await rig.end(await rig.start(input));
      expect(result).toMatchObject({ prLinkChanged: false, observedActive: false, status: 'completed' });
      expect(Date.parse(result.finishedAt) - Date.parse(result.sentAt)).toBeGreaterThanOrEqual(120_000);
    });

    test('gives a failed and an archived job as results', async () => {
      for (const status of ['failed', 'archived'] as const) {
        const input = target();
        rig.service.reads(input.jobId, BEFORE, ACTIVE, { ...BEFORE, status });
        expect(await rig.end(await rig.start(input))).toMatchObject({ status });
      }
    });

    test('goes on polling through failed reads, a lost job of two reads, and a status it does not know', async () => {
      const input = target();
      const gone = { kind: 'notFound', message: 'HTTP 404' } as const;
      rig.service.reads(
        input.jobId,
        BEFORE,
        { kind: 'failed', reason: 'service', message: 'HTTP 503' },
        gone,
        gone,
        { id: 'j', status: 'queued' },
        gone,
        AFTER,
      );
      expect(await rig.end(await rig.start(input))).toMatchObject({ status: 'completed', observedActive: true });
    });

    test('does not poll before the Retry-After of a read that was refused', async () => {
      const input = target();
      const limited = { kind: 'failed', reason: 'limited', message: 'HTTP 429', retryAfterMs: 900_000 } as const;
      rig.service.reads(input.jobId, BEFORE, limited, AFTER);
      const result = await rig.end(await rig.start(input));
      expect(result.polls).toBe(2);
      expect(Date.parse(result.finishedAt) - Date.parse(result.sentAt)).toBeGreaterThanOrEqual(900_000);
    });

    test('looks at once when told to poll now', async () => {
      const input = { ...target(), poll: { initialInterval: '1h', maxInterval: '1h' } };
      rig.service.reads(input.jobId, BEFORE, AFTER);
      const handle = await rig.start(input);
      await rig.advance(60_000);
      expect(await handle.query(progressQuery)).toMatchObject({ state: 'polling', polls: 0 });
      await handle.signal(pollNowSignal);
      expect(await rig.end(handle)).toMatchObject({ polls: 1 });
    });

    test('waits for a job that somebody else keeps active, or steers it when asked to', async () => {
      const waiting = target();
      rig.service.reads(waiting.jobId, ACTIVE, ACTIVE, ACTIVE, BEFORE, ACTIVE, AFTER);
      const handle = await rig.start(waiting);
      await rig.advance(1_000);
      expect(await handle.query(progressQuery)).toMatchObject({ state: 'waiting-for-job' });
      expect(receivedBy(waiting.jobId)).toBe(0);
      expect(await rig.end(handle)).toMatchObject({ prLink: AFTER.prLink });

      const steering = { ...target(), whenActive: 'send' as const };
      rig.service.reads(steering.jobId, ACTIVE, ACTIVE, AFTER);
      const result = await rig.end(await rig.start(steering));
      // With an active baseline only time tells whose turn has ended.
      expect(Date.parse(result.finishedAt) - Date.parse(result.sentAt)).toBeGreaterThanOrEqual(120_000);
    });

    test('is sent, not in doubt, when the service takes its time to answer', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE, ACTIVE, AFTER).sends(async () => {
        await rig.advance(25_000);
        return { outcome: 'sent', statusCode: 200 };
      });
      expect(await rig.end(await rig.start(input))).toMatchObject({ delivery: 'sent' });
      expect(receivedBy(input.jobId)).toBe(1);
    });

    test('outlives any number of workers that die before they ask', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE, ACTIVE, AFTER);
      deathsBefore.sendFollowUp = 5;
      const [end] = await Promise.allSettled([rig.end(await rig.start(input))]);
      expect(end).toMatchObject({ status: 'fulfilled', value: { delivery: 'sent' } });
      expect(deathsBefore.sendFollowUp).toBe(0);
      expect(receivedBy(input.jobId)).toBe(1);
    });

    test('waits for its slot for a whole window when the budget is spent', async () => {
      const first = target();
      const second = { ...first, jobId: `${first.jobId}-b` };
      rig.service.reads(first.jobId, BEFORE, ACTIVE, AFTER).reads(second.jobId, BEFORE);
      const done = await rig.end(await rig.start(first));
      const handle = await rig.start(second);
      await rig.advance(60_000);
      expect(await handle.query(progressQuery)).toMatchObject({ state: 'waiting-for-budget', position: 1 });
      rig.service.reads(second.jobId, BEFORE, ACTIVE, AFTER);
      const late = await rig.end(handle, 60_000);
      const gapMs = Date.parse(late.sentAt) - Date.parse(done.sentAt);
      // The margin of 2 s is for what lies between a send and the knowledge of it.
      expect(gapMs).toBeGreaterThanOrEqual(3_600_000);
      expect(gapMs).toBeLessThan(3_660_000);
    });
  });

  describe('whose send is not proven', () => {
    const unknown = { outcome: 'unknown', message: 'HTTP 503', statusCode: 503 } as const;

    test('fails with DeliveryUnknown after every byte had its time, and sends nothing more', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE).sends(unknown);
      const startedMs = await rig.nowMs();
      const failure = await failureOf(rig.end(await rig.start(input)));
      expect(failure).toMatchObject({ type: 'DeliveryUnknown', delivered: 'unknown', job: BEFORE });
      expect(receivedBy(input.jobId)).toBe(1);
      expect((await rig.nowMs()) - startedMs).toBeGreaterThanOrEqual(180_000 - 1_000);
    });

    test('is inferred from a job that left its terminal status', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE, BEFORE, ACTIVE, AFTER).sends(unknown);
      const result = await rig.end(await rig.start(input));
      expect(result).toMatchObject({ delivery: 'inferred', observedActive: true, prLink: AFTER.prLink });
      expect(receivedBy(input.jobId)).toBe(1);
    });

    test('is taken for sent where onUnknownDelivery says so', async () => {
      const input = { ...target(), onUnknownDelivery: 'assumeSent' as const };
      rig.service.reads(input.jobId, BEFORE).sends(unknown);
      expect(await rig.end(await rig.start(input))).toMatchObject({ delivery: 'assumed', observedActive: false });
    });

    test('is sent again where onUnknownDelivery says so, with a slot of its own', async () => {
      const input = { ...target(), onUnknownDelivery: 'resend' as const };
      rig.service.reads(input.jobId, BEFORE).sends(unknown);
      const handle = await rig.start(input);
      await rig.advance(240_000);
      expect(await handle.query(progressQuery)).toMatchObject({ state: 'waiting-for-budget' });
      const result = await rig.end(handle, 60_000);
      expect(result).toMatchObject({ delivery: 'sent' });
      expect(receivedBy(input.jobId)).toBe(2);
    });

    test('is found out from the budget when the worker died after it had settled', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE, ACTIVE, AFTER);
      losesCompletion = true;
      expect(await rig.end(await rig.start(input))).toMatchObject({ delivery: 'sent', prLinkChanged: true });
      expect(losesCompletion).toBe(false);
      expect(receivedBy(input.jobId)).toBe(1);
    });

    test('that the service refused is told with its status, also when the worker died after it had settled', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE);
      rig.service.sends({ outcome: 'rejected', statusCode: 404, message: 'HTTP 404: no such job' });
      losesCompletion = true;
      expect(await failureOf(rig.end(await rig.start(input)))).toMatchObject({
        type: 'JobNotFound',
        delivered: 'no',
        statusCode: 404,
        serviceMessage: 'HTTP 404: no such job',
      });
      expect(losesCompletion).toBe(false);
    });

    test('is never repeated when the worker died between grant and settle, whether it was delivered or not', async () => {
      const dies = () => Promise.reject(new Error('the worker died'));
      const delivered = target();
      rig.service.reads(delivered.jobId, BEFORE, ACTIVE, AFTER).sends(dies);
      expect(await rig.end(await rig.start(delivered))).toMatchObject({ delivery: 'inferred' });

      const nobodyKnows = target();
      rig.service.reads(nobodyKnows.jobId, BEFORE).sends(dies);
      const startedMs = await rig.nowMs();
      expect(await failureOf(rig.end(await rig.start(nobodyKnows)))).toMatchObject({ type: 'DeliveryUnknown' });
      expect((await rig.nowMs()) - startedMs).toBeGreaterThanOrEqual(179_000);
      expect(receivedBy(delivered.jobId) + receivedBy(nobodyKnows.jobId)).toBe(0);
    });

    test('is settled by an operator, but only while it is in doubt', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE).sends(unknown);
      const handle = await rig.start(input);
      await rig.advance(10_000);
      await expect(handle.executeUpdate(resolveDeliveryUpdate, { args: ['maybe' as 'sent'] })).rejects.toThrow();
      await handle.executeUpdate(resolveDeliveryUpdate, { args: ['sent'] });
      await rig.advance(1_000);
      await expect(handle.executeUpdate(resolveDeliveryUpdate, { args: ['sent'] })).rejects.toThrow();
      rig.service.reads(input.jobId, ACTIVE, AFTER);
      expect(await rig.end(handle)).toMatchObject({ delivery: 'assumed' });
    });
  });

  describe('that was not sent', () => {
    test('sends again at once what provably never left, and keeps its slot for it', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE, BEFORE, ACTIVE, AFTER).sends({ outcome: 'notSent', message: 'refused' });
      expect(await rig.end(await rig.start(input))).toMatchObject({ delivery: 'sent' });
      expect(receivedBy(input.jobId)).toBe(1);
    });

    test('waits out a 429 and a 401 and loses nothing', async () => {
      for (const outcome of ['limited', 'unauthorized'] as const) {
        const input = target();
        rig.service.reads(input.jobId, BEFORE).sends({ outcome, statusCode: 429, message: 'HTTP 429' });
        const handle = await rig.start(input);
        await rig.advance(30_000);
        expect(await handle.query(progressQuery)).toMatchObject({
          state: 'blocked',
          waitReason: outcome === 'limited' ? 'paused' : 'credentials',
        });
        expect(await rig.end(handle, 300_000)).toMatchObject({ delivery: 'sent' });
        expect(receivedBy(input.jobId)).toBe(2);
      }
    });

    test('fails with the words of the service that refused it', async () => {
      const rejected = {
        outcome: 'rejected',
        statusCode: 400,
        message: 'HTTP 400: the job takes no messages',
      } as const;
      const input = target();
      rig.service.reads(input.jobId, BEFORE).sends(rejected);
      expect(await failureOf(rig.end(await rig.start(input)))).toMatchObject({
        type: 'MessageRejected',
        delivered: 'no',
        statusCode: 400,
        serviceMessage: rejected.message,
      });
    });

    test('fails with JobArchived for a job archived before, and JobNotFound after three reads', async () => {
      const archived = target();
      rig.service.reads(archived.jobId, { ...BEFORE, status: 'archived' });
      expect(await failureOf(rig.end(await rig.start(archived)))).toMatchObject({
        type: 'JobArchived',
        delivered: 'no',
      });

      const missing = target();
      const getsBefore = rig.service.gets;
      expect(await failureOf(rig.end(await rig.start(missing)))).toMatchObject({
        type: 'JobNotFound',
        delivered: 'no',
        statusCode: 404,
        serviceMessage: expect.stringContaining('HTTP 404') as string,
      });
      expect(rig.service.gets - getsBefore).toBe(3);
      expect(rig.service.received.some(({ jobId }) => [archived.jobId, missing.jobId].includes(jobId))).toBe(false);
    });

    test('fails with BudgetWaitTimeout when no slot came in time, with proof that it was not sent', async () => {
      const first = target();
      rig.service.reads(first.jobId, BEFORE, ACTIVE, AFTER);
      await rig.end(await rig.start(first));
      const second = { ...first, jobId: `${first.jobId}-b`, budgetWaitTimeout: '30m' };
      rig.service.reads(second.jobId, BEFORE);
      expect(await failureOf(rig.end(await rig.start(second), 60_000))).toMatchObject({
        type: 'BudgetWaitTimeout',
        delivered: 'no',
      });
      expect(receivedBy(second.jobId)).toBe(0);
      expect(await rig.budgetStatus(first.projectId)).toMatchObject({ waitingTotal: 0 });
    });

    test('is blocked, not failed, while the service cannot be read, until budgetWaitTimeout', async () => {
      const input = { ...target(), budgetWaitTimeout: '7d' };
      rig.service.reads(input.jobId, { kind: 'failed', reason: 'network', message: 'connection refused' });
      const handle = await rig.start(input);
      await rig.advance(3_600_000);
      expect(await handle.query(progressQuery)).toMatchObject({
        state: 'blocked',
        waitReason: 'service',
        lastError: { message: 'connection refused' },
      });
      rig.service.reads(input.jobId, BEFORE, ACTIVE, AFTER);
      expect(await rig.end(handle, 60_000)).toMatchObject({ delivery: 'sent' });
    });
  });

  describe('that is cancelled', () => {
    test('while it waits for its slot ends as Canceled, leaves the queue, and sent nothing', async () => {
      const first = target();
      rig.service.reads(first.jobId, BEFORE, ACTIVE, AFTER);
      await rig.end(await rig.start(first));
      const second = { ...first, jobId: `${first.jobId}-b` };
      rig.service.reads(second.jobId, BEFORE);
      const handle = await rig.start(second);
      await rig.advance(5_000);
      await handle.cancel();
      expect(await failureOf(rig.end(handle))).toMatchObject({ type: 'Canceled' });
      expect(await rig.budgetStatus(first.projectId)).toMatchObject({ waitingTotal: 0 });
      expect(receivedBy(second.jobId)).toBe(0);
    });

    test('after the send fails with Cancelled and says that it was delivered', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE, ACTIVE);
      const handle = await rig.start(input);
      await rig.advance(20_000);
      await handle.cancel();
      expect(await failureOf(rig.end(handle))).toMatchObject({ type: 'Cancelled', delivered: 'yes', job: ACTIVE });
    });

    test('while it reconciles fails with Cancelled and says that nobody knows', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE).sends({ outcome: 'unknown', message: 'reset' });
      const handle = await rig.start(input);
      await rig.advance(20_000);
      await handle.cancel();
      expect(await failureOf(rig.end(handle))).toMatchObject({ type: 'Cancelled', delivered: 'unknown' });
    });
  });

  test('fails with JobTimeout a day after the send, with the last job seen', async () => {
    const input = { ...target(), poll: { maxInterval: '1h' } };
    rig.service.reads(input.jobId, BEFORE, ACTIVE);
    const failure = await failureOf(rig.end(await rig.start(input), 3_600_000));
    expect(failure).toMatchObject({ type: 'JobTimeout', delivered: 'yes', job: ACTIVE });
  });

  test('does not end before it has told its budget so', async () => {
    const input = target();
    rig.service.reads(input.jobId, BEFORE, ACTIVE, AFTER);
    deathsBefore.tellBudget = 2;
    await rig.end(await rig.start(input));
    expect(deathsBefore.tellBudget).toBe(0);
  });

  test('has the turn of its job to itself: a second one waits until the first has ended', async () => {
    const first = { ...target() };
    const second = { ...first, prompt: 'and then this' };
    rig.service.reads(first.jobId, BEFORE, ACTIVE);
    const one = await rig.start(first);
    await rig.advance(20_000);
    const two = await rig.start({ ...second, whenActive: 'send' });
    await rig.advance(20_000);
    expect(await two.query(progressQuery)).toMatchObject({ state: 'waiting-for-job' });
    expect(receivedBy(first.jobId)).toBe(1);
    rig.service.reads(first.jobId, AFTER);
    await rig.end(one);
    rig.service.reads(first.jobId, AFTER, ACTIVE, { ...AFTER, prLink: 'https://git.example/pull/3' });
    expect(await rig.end(two, 60_000)).toMatchObject({ prLink: 'https://git.example/pull/3' });
  });
});
