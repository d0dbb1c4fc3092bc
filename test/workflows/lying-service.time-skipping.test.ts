import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { progressQuery, resolveDeliveryUpdate, type FollowUpResult } from '../../src/contract/index.js';
import { failureOf } from '../support/failure-of.js';
import { record } from '../support/histories.js';
import { describeWith, findMissing } from '../support/requirements.js';
import { startTimeSkippingRig, type TimeSkippingRig } from '../support/time-skipping.js';

const link = (number: number) => `https://git.example/pull/${number}`;
const completed = (number: number) => ({ id: 'j', status: 'completed', prLink: link(number), archivedAt: null });
const BEFORE = completed(1);
const AFTER = completed(2);
const LATER = completed(3);
const ACTIVE = { id: 'j', status: 'active', prLink: null, archivedAt: null };
const ARCHIVED = { ...BEFORE, status: 'archived', archivedAt: '2026-01-01T00:00:00Z' };
const UNKNOWN = { outcome: 'unknown', message: 'HTTP 503', statusCode: 503 } as const;

/** Lease of the default send timeout, and drain: no byte of a send arrives later. */
const LAST_BYTE_MS = 180_000;
const SETTLE_MS = 120_000;

const many = <T>(count: number, item: T): T[] => Array.from({ length: count }, () => item);
const tookMs = ({ sentAt, finishedAt }: FollowUpResult) => Date.parse(finishedAt) - Date.parse(sentAt);

const SUITE = 'a service that lies, with time skipped,';

describeWith(await findMissing(['time-skipping-server']))(SUITE, () => {
  let rig: TimeSkippingRig;
  let count = 0;
  /** Sends whose completion never reaches the server, as when the worker dies. */
  let losesCompletions = false;
  let lostCompletions = 0;
  const target = () => ({ projectId: `lies-${++count}`, jobId: `job-${count}`, prompt: `message ${count}` });
  const receivedBy = (jobId: string) => rig.service.received.filter((message) => message.jobId === jobId).length;

  beforeAll(async () => {
    rig = await startTimeSkippingRig({
      afterActivity: (type) => {
        if (type !== 'sendFollowUp' || !losesCompletions) return;
        lostCompletions += 1;
        throw new Error('completion lost');
      },
    });
  });
  afterEach(async ({ task }) => {
    for (const [index, { workflowId }] of rig.started.entries()) {
      await record(rig.client, `a service that lies ${task.name} ${index + 1}`, workflowId);
    }
    rig.started.length = 0;
  });
  afterAll(() => rig.stop());

  /** A follow-up to the same job, seen to its end: the budget remembers `end` as the end of the turn before. */
  async function turnBefore(input: ReturnType<typeof target>, end: typeof AFTER) {
    rig.service.reads(input.jobId, BEFORE, ACTIVE, end);
    expect(await rig.end(await rig.start(input))).toMatchObject({ prLink: end.prLink });
  }

  describe('of the end of a turn,', () => {
    test('by an answer that says active and reads that lag behind it, is not believed before the settle time', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE).sends({ outcome: 'sent', statusCode: 200, job: ACTIVE });
      const result = await rig.end(await rig.start(input));
      expect(result).toMatchObject({ delivery: 'sent', observedActive: false, prLink: link(1) });
      expect(tookMs(result)).toBeGreaterThanOrEqual(SETTLE_MS);
    });

    test('by a stale window that ends before the settle time, is not believed within it', async () => {
      const input = target();
      rig.service.reads(input.jobId, ...many(5, BEFORE), AFTER);
      const result = await rig.end(await rig.start(input));
      expect(result).toMatchObject({ prLink: link(2), observedActive: false, polls: 5 });
      expect(tookMs(result)).toBeLessThan(SETTLE_MS);
    });

    test('by a baseline that lags behind the turn before, does not take that turn’s end for its own', async () => {
      const input = target();
      await turnBefore(input, AFTER);
      rig.service.reads(input.jobId, BEFORE, ...many(3, AFTER), LATER);
      const result = await rig.end(await rig.start(input));
      expect(result).toMatchObject({ prLink: link(3), observedActive: false, polls: 4 });
    });

    test('by such a baseline, and without a new link, waits for the settle time and says so', async () => {
      const input = target();
      await turnBefore(input, AFTER);
      rig.service.reads(input.jobId, BEFORE, AFTER);
      const result = await rig.end(await rig.start(input));
      expect(result).toMatchObject({ prLink: link(2), observedActive: false });
      expect(tookMs(result)).toBeGreaterThanOrEqual(SETTLE_MS);
    });

    test('by a replica that shows something new and takes it back within 10 s, is not fooled', async () => {
      const input = { ...target(), poll: { initialInterval: '2s', backoffCoefficient: 1 } };
      rig.service.reads(input.jobId, BEFORE, AFTER, BEFORE, AFTER, ACTIVE, ACTIVE, LATER);
      const result = await rig.end(await rig.start(input));
      expect(result).toMatchObject({ prLink: link(3), observedActive: true });
    });

    test('by the old status shown once more after the agent was seen at work, within 10 s, is not fooled', async () => {
      const input = { ...target(), poll: { initialInterval: '2s', backoffCoefficient: 1 } };
      rig.service.reads(input.jobId, BEFORE, ACTIVE, BEFORE, ACTIVE, ACTIVE, LATER);
      expect(await rig.end(await rig.start(input))).toMatchObject({ prLink: link(3) });
    });

    test('of somebody else that was under way at the send, is not taken for its own', async () => {
      const input = { ...target(), whenActive: 'send' as const };
      rig.service.reads(input.jobId, ACTIVE, AFTER, AFTER, ACTIVE, ACTIVE, ACTIVE, LATER);
      const result = await rig.end(await rig.start(input));
      expect(result).toMatchObject({ prLink: link(3) });
      expect(tookMs(result)).toBeGreaterThanOrEqual(SETTLE_MS);
    });

    test('by jobs without a status, and with one of tomorrow, goes on polling', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE, { id: 'j' }, { id: 'j', status: 'reviewing' }, {}, AFTER);
      expect(await rig.end(await rig.start(input))).toMatchObject({ prLink: link(2), polls: 4 });
    });
  });

  describe('of a job', () => {
    test('that has failed is sent to, and one archived by this turn is its result', async () => {
      const failed = target();
      rig.service.reads(failed.jobId, { ...BEFORE, status: 'failed' }, ACTIVE, AFTER);
      expect(await rig.end(await rig.start(failed))).toMatchObject({ status: 'completed', delivery: 'sent' });

      const archived = target();
      rig.service.reads(archived.jobId, BEFORE, ARCHIVED);
      const result = await rig.end(await rig.start(archived));
      expect(result).toMatchObject({ status: 'archived', prLinkChanged: false, observedActive: false });
      expect(tookMs(result)).toBeLessThan(SETTLE_MS);
    });

    test('that is gone after the send, for three reads in a row, ends with JobNotFound: delivered', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE, ACTIVE, { kind: 'notFound', message: 'HTTP 404: gone' });
      expect(await failureOf(rig.end(await rig.start(input)))).toMatchObject({
        type: 'JobNotFound',
        delivered: 'yes',
        job: ACTIVE,
        statusCode: 404,
        serviceMessage: 'HTTP 404: gone',
      });
    });
  });

  describe('of a delivery that is not known,', () => {
    test.each([
      ['a status', { ...BEFORE, status: 'failed' }, 'failed'],
      ['a pull request', AFTER, 'completed'],
      ['an instant of archiving', ARCHIVED, 'archived'],
    ])('by %s that is new, is inferred from it', async (_name, shown, status) => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE, BEFORE, BEFORE, shown).sends(UNKNOWN);
      expect(await rig.end(await rig.start(input))).toMatchObject({ delivery: 'inferred', status });
      expect(receivedBy(input.jobId)).toBe(1);
    });

    test('in a stale window that lasts until the last byte may have arrived, is inferred at the last look', async () => {
      const input = target();
      rig.service.reads(input.jobId, ...many(9, BEFORE), ACTIVE, AFTER).sends(UNKNOWN);
      const startedMs = await rig.nowMs();
      expect(await rig.end(await rig.start(input))).toMatchObject({ delivery: 'inferred', prLink: link(2) });
      expect((await rig.nowMs()) - startedMs).toBeGreaterThanOrEqual(LAST_BYTE_MS - 1_000);
    });

    test('waits for a settle time that is longer than the last byte takes', async () => {
      const input = { ...target(), settleTime: '15m' };
      rig.service.reads(input.jobId, BEFORE).sends(UNKNOWN);
      const startedMs = await rig.nowMs();
      expect(await failureOf(rig.end(await rig.start(input)))).toMatchObject({ type: 'DeliveryUnknown' });
      expect((await rig.nowMs()) - startedMs).toBeGreaterThanOrEqual(900_000 - 1_000);
    });

    test('takes the end of the turn before, which a lagging baseline did not show, for no evidence', async () => {
      const input = target();
      await turnBefore(input, AFTER);
      rig.service.reads(input.jobId, BEFORE, AFTER).sends(UNKNOWN);
      expect(await failureOf(rig.end(await rig.start(input)))).toMatchObject({
        type: 'DeliveryUnknown',
        delivered: 'unknown',
      });

      rig.service.reads(input.jobId, BEFORE, AFTER, AFTER, LATER).sends(UNKNOWN);
      expect(await rig.end(await rig.start(input))).toMatchObject({ delivery: 'inferred', prLink: link(3) });
    });

    test('takes nothing for evidence where the job was at work before the send', async () => {
      const input = { ...target(), whenActive: 'send' as const };
      rig.service.reads(input.jobId, ACTIVE, AFTER, ACTIVE, LATER).sends(UNKNOWN);
      expect(await failureOf(rig.end(await rig.start(input)))).toMatchObject({
        type: 'DeliveryUnknown',
        delivered: 'unknown',
      });
    });

    test.each([
      ['fail', { kind: 'failed', reason: 'service', message: 'HTTP 500' }],
      ['say that there is no such job', { kind: 'notFound', message: 'HTTP 404' }],
    ] as const)('by reads that %s, is no evidence either way', async (_name, shown) => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE, shown).sends(UNKNOWN);
      const startedMs = await rig.nowMs();
      expect(await failureOf(rig.end(await rig.start(input)))).toMatchObject({ type: 'DeliveryUnknown', job: BEFORE });
      expect((await rig.nowMs()) - startedMs).toBeGreaterThanOrEqual(LAST_BYTE_MS - 1_000);
    });

    test('and is sent again, is not denied when the second one is refused, or cancelled before it', async () => {
      const refused = { ...target(), onUnknownDelivery: 'resend' as const };
      rig.service.reads(refused.jobId, BEFORE);
      rig.service.sends(UNKNOWN, { outcome: 'rejected', statusCode: 400, message: 'HTTP 400: no' });
      expect(await failureOf(rig.end(await rig.start(refused)))).toMatchObject({
        type: 'MessageRejected',
        delivered: 'unknown',
      });

      const cancelled = { ...target(), onUnknownDelivery: 'resend' as const };
      rig.service.reads(cancelled.jobId, BEFORE).sends(UNKNOWN, { outcome: 'limited', message: 'HTTP 429' });
      const handle = await rig.start(cancelled);
      await rig.advance(LAST_BYTE_MS + 10_000);
      expect(await handle.query(progressQuery)).toMatchObject({ state: 'blocked', waitReason: 'paused' });
      await handle.cancel();
      expect(await failureOf(rig.end(handle))).toMatchObject({ type: 'Cancelled', delivered: 'unknown' });
    });
  });

  describe('and an operator who knows better,', () => {
    test('who says that it was not sent, has it sent again, after the last byte of the first', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE).sends(UNKNOWN);
      const handle = await rig.start(input);
      await rig.advance(10_000);
      await handle.executeUpdate(resolveDeliveryUpdate, { args: ['notSent'] });
      await rig.advance(10_000);
      expect(receivedBy(input.jobId)).toBe(1);
      const result = await rig.end(handle);
      expect(result).toMatchObject({ delivery: 'sent' });
      expect(receivedBy(input.jobId)).toBe(2);
    });

    /** Up to the last ask: the send's worker died, and the ask of its outcome does not come back yet. */
    async function underTheLastAsk(input: ReturnType<typeof target>) {
      rig.service.reads(input.jobId, BEFORE).sends(() => Promise.reject(new Error('the worker died')));
      const handle = await rig.start(input);
      await rig.advance(LAST_BYTE_MS - 20_000);
      expect(await handle.query(progressQuery)).toMatchObject({ state: 'reconciling' });
      losesCompletions = true;
      lostCompletions = 0;
      try {
        for (let waits = 0; lostCompletions === 0 && waits < 60; waits++) await rig.advance(1_000);
        expect(lostCompletions).toBeGreaterThan(0);
      } finally {
        losesCompletions = false;
      }
      return handle;
    }

    test('who says so while the last ask is under way, is heard: sent', async () => {
      const input = target();
      const handle = await underTheLastAsk(input);
      await handle.executeUpdate(resolveDeliveryUpdate, { args: ['sent'] });
      rig.service.reads(input.jobId, ACTIVE, AFTER);
      expect(await rig.end(handle)).toMatchObject({ delivery: 'assumed', prLink: link(2), observedActive: true });
      expect(receivedBy(input.jobId)).toBe(0);
    });

    test('who says so while the last ask is under way, is heard: not sent', async () => {
      const input = target();
      const handle = await underTheLastAsk(input);
      await handle.executeUpdate(resolveDeliveryUpdate, { args: ['notSent'] });
      rig.service.reads(input.jobId, BEFORE, ACTIVE, AFTER);
      expect(await rig.end(handle)).toMatchObject({ delivery: 'sent', prLink: link(2) });
      expect(receivedBy(input.jobId)).toBe(1);
    });

    test('without whom it fails with DeliveryUnknown', async () => {
      const handle = await underTheLastAsk(target());
      expect(await failureOf(rig.end(handle))).toMatchObject({ type: 'DeliveryUnknown', delivered: 'unknown' });
    });
  });
});
