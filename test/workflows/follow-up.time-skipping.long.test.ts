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
  /** Whether the completion of the next send is lost, as if the worker died. */
  let losesCompletion = false;
  /** How many attempts of an activity fail before they begin, as if their worker died. */
  const deathsBefore = { sendFollowUp: 0, tellBudget: 0 };
  /** Each test has its own project, so budgets do not mix. */
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
    test('sends once, sees the agent at work, and returns the new pull request', async () => {
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

    test('does not believe the old status until the settle time has passed, and says so', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE);
      const result = await rig.end(await rig.start(input));
      expect(result).toMatchObject({ prLinkChanged: false, observedActive: false, status: 'completed' });
      expect(Date.parse(result.finishedAt) - Date.parse(result.sentAt)).toBeGreaterThanOrEqual(120_000);
    });

    test('returns a failed job and an archived job as results', async () => {
      for (const status of ['failed', 'archived'] as const) {
        const input = target();
        rig.service.reads(input.jobId, BEFORE, ACTIVE, { ...BEFORE, status });
        expect(await rig.end(await rig.start(input))).toMatchObject({ status });
      }
    });

    test('keeps polling through failed reads, two 404 answers in a row, and an unknown status', async () => {
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

    test('does not poll before the Retry-After of a limited read', async () => {
      const input = target();
      const limited = { kind: 'failed', reason: 'limited', message: 'HTTP 429', retryAfterMs: 900_000 } as const;
      rig.service.reads(input.jobId, BEFORE, limited, AFTER);
      const result = await rig.end(await rig.start(input));
      expect(result.polls).toBe(2);
      expect(Date.parse(result.finishedAt) - Date.parse(result.sentAt)).toBeGreaterThanOrEqual(900_000);
    });

    test('polls at once when told to', async () => {
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
      // With an active baseline, only the settle time shows whose turn has ended.
      expect(Date.parse(result.finishedAt) - Date.parse(result.sentAt)).toBeGreaterThanOrEqual(120_000);
    });

    test('is sent, not in doubt, when the service answers slowly', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE, ACTIVE, AFTER).sends(async () => {
        await rig.advance(25_000);
        return { outcome: 'sent', statusCode: 200 };
      });
      expect(await rig.end(await rig.start(input))).toMatchObject({ delivery: 'sent' });
      expect(receivedBy(input.jobId)).toBe(1);
    });

    test('survives workers that die before they ask', async () => {
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
      // The margin of 2 s covers the time between a send and its settle.
      expect(gapMs).toBeGreaterThanOrEqual(3_600_000);
      expect(gapMs).toBeLessThan(3_660_000);
    });
  });

  describe('whose send is not proven', () => {
    const unknown = { outcome: 'unknown', message: 'HTTP 503', statusCode: 503 } as const;

    test('fails with DeliveryUnknown once no byte can arrive any more, and sends nothing else', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE).sends(unknown);
      const startedMs = await rig.nowMs();
      const failure = await failureOf(rig.end(await rig.start(input)));
      expect(failure).toMatchObject({ type: 'DeliveryUnknown', delivered: 'unknown', job: BEFORE });
      expect(receivedBy(input.jobId)).toBe(1);
      expect((await rig.nowMs()) - startedMs).toBeGreaterThanOrEqual(180_000 - 1_000);
    });

    test('infers the delivery from a job that left its terminal status', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE, BEFORE, ACTIVE, AFTER).sends(unknown);
      const result = await rig.end(await rig.start(input));
      expect(result).toMatchObject({ delivery: 'inferred', observedActive: true, prLink: AFTER.prLink });
      expect(receivedBy(input.jobId)).toBe(1);
    });

    test('assumes the delivery if onUnknownDelivery is assumeSent', async () => {
      const input = { ...target(), onUnknownDelivery: 'assumeSent' as const };
      rig.service.reads(input.jobId, BEFORE).sends(unknown);
      expect(await rig.end(await rig.start(input))).toMatchObject({ delivery: 'assumed', observedActive: false });
    });

    test('is sent again with a slot of its own if onUnknownDelivery is resend', async () => {
      const input = { ...target(), onUnknownDelivery: 'resend' as const };
      rig.service.reads(input.jobId, BEFORE).sends(unknown);
      const handle = await rig.start(input);
      await rig.advance(240_000);
      expect(await handle.query(progressQuery)).toMatchObject({ state: 'waiting-for-budget' });
      const result = await rig.end(handle, 60_000);
      expect(result).toMatchObject({ delivery: 'sent' });
      expect(receivedBy(input.jobId)).toBe(2);
    });

    test('learns the outcome from the budget if the worker died after the settle', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE, ACTIVE, AFTER);
      losesCompletion = true;
      expect(await rig.end(await rig.start(input))).toMatchObject({ delivery: 'sent', prLinkChanged: true });
      expect(losesCompletion).toBe(false);
      expect(receivedBy(input.jobId)).toBe(1);
    });

    test('reports a rejection with its HTTP status, even if the worker died after the settle', async () => {
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

    test('is never sent again if the worker died between grant and settle, whether it was delivered or not', async () => {
      const dies = () => Promise.reject(new Error('the worker died'));
      const delivered = target();
      rig.service.reads(delivered.jobId, BEFORE, ACTIVE, AFTER).sends(dies);
      expect(await rig.end(await rig.start(delivered))).toMatchObject({ delivery: 'inferred' });

      const unknowable = target();
      rig.service.reads(unknowable.jobId, BEFORE).sends(dies);
      const startedMs = await rig.nowMs();
      expect(await failureOf(rig.end(await rig.start(unknowable)))).toMatchObject({ type: 'DeliveryUnknown' });
      expect((await rig.nowMs()) - startedMs).toBeGreaterThanOrEqual(179_000);
      expect(receivedBy(delivered.jobId) + receivedBy(unknowable.jobId)).toBe(0);
    });

    test('can be resolved by an operator, but only while its delivery is in doubt', async () => {
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
    test('is sent again at once if its request never began, without waiting for another slot', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE, BEFORE, ACTIVE, AFTER).sends({ outcome: 'notSent', message: 'refused' });
      expect(await rig.end(await rig.start(input))).toMatchObject({ delivery: 'sent' });
      expect(receivedBy(input.jobId)).toBe(1);
    });

    test('waits out a 429 and a 401, and is then sent', async () => {
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

    test('fails with the text of the service that rejected it', async () => {
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

    test('fails with JobArchived if the job was archived before, and with JobNotFound after three reads', async () => {
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

    test('fails with BudgetWaitTimeout if no slot comes in time, with proof that nothing was sent', async () => {
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

    test('is blocked, not failed, while its job cannot be read, and continues when it can', async () => {
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
    test('while it waits for its slot ends as Canceled, leaves the queue, and sends nothing', async () => {
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

    test('while it reconciles fails with Cancelled and says that its delivery is unknown', async () => {
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

  test('does not end before it has told its budget', async () => {
    const input = target();
    rig.service.reads(input.jobId, BEFORE, ACTIVE, AFTER);
    deathsBefore.tellBudget = 2;
    await rig.end(await rig.start(input));
    expect(deathsBefore.tellBudget).toBe(0);
  });

  test('has its job’s turn to itself: a second follow-up waits until the first has ended', async () => {
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
