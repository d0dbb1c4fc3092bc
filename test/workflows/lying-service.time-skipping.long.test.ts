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

/** The lease of the default send timeout, and the drain. No byte of a send arrives later. */
const LAST_BYTE_MS = 180_000;
const SETTLE_MS = 120_000;

const many = <T>(count: number, item: T): T[] => Array.from({ length: count }, () => item);
const tookMs = ({ sentAt, finishedAt }: FollowUpResult) => Date.parse(finishedAt) - Date.parse(sentAt);

const SUITE = 'a follow-up whose service lies, with time skipped,';

describeWith(await findMissing(['time-skipping-server']))(SUITE, () => {
  let rig: TimeSkippingRig;
  let count = 0;
  /** Whether completions of sends are lost, as if the worker died. */
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
      await record(rig.client, `a follow-up whose service lies ${task.name} ${index + 1}`, workflowId);
    }
    rig.started.length = 0;
  });
  afterAll(() => rig.stop());

  /** Runs a follow-up to the same job, so that the budget remembers `end` as the end of the previous turn. */
  async function runPreviousTurn(input: ReturnType<typeof target>, end: typeof AFTER) {
    rig.service.reads(input.jobId, BEFORE, ACTIVE, end);
    expect(await rig.end(await rig.start(input))).toMatchObject({ prLink: end.prLink });
  }

  describe('about the end of a turn', () => {
    test('waits for the settle time if the answer to the send says active and the reads lag behind it', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE).sends({ outcome: 'sent', statusCode: 200, job: ACTIVE });
      const result = await rig.end(await rig.start(input));
      expect(result).toMatchObject({ delivery: 'sent', observedActive: false, prLink: link(1) });
      expect(tookMs(result)).toBeGreaterThanOrEqual(SETTLE_MS);
    });

    test('ignores stale reads, and believes a new pull request before the settle time', async () => {
      const input = target();
      rig.service.reads(input.jobId, ...many(5, BEFORE), AFTER);
      const result = await rig.end(await rig.start(input));
      expect(result).toMatchObject({ prLink: link(2), observedActive: false, polls: 5 });
      expect(tookMs(result)).toBeLessThan(SETTLE_MS);
    });

    test('does not take the end of the previous turn for its own if the baseline lagged behind it', async () => {
      const input = target();
      await runPreviousTurn(input, AFTER);
      rig.service.reads(input.jobId, BEFORE, ...many(3, AFTER), LATER);
      const result = await rig.end(await rig.start(input));
      expect(result).toMatchObject({ prLink: link(3), observedActive: false, polls: 4 });
    });

    test('waits for the settle time and says so if the baseline lagged and no new link comes', async () => {
      const input = target();
      await runPreviousTurn(input, AFTER);
      rig.service.reads(input.jobId, BEFORE, AFTER);
      const result = await rig.end(await rig.start(input));
      expect(result).toMatchObject({ prLink: link(2), observedActive: false });
      expect(tookMs(result)).toBeGreaterThanOrEqual(SETTLE_MS);
    });

    test('is not fooled by a replica that shows something new and takes it back within 10 s', async () => {
      const input = { ...target(), poll: { initialInterval: '2s', backoffCoefficient: 1 } };
      rig.service.reads(input.jobId, BEFORE, AFTER, BEFORE, AFTER, ACTIVE, ACTIVE, LATER);
      const result = await rig.end(await rig.start(input));
      expect(result).toMatchObject({ prLink: link(3), observedActive: true });
    });

    test('is not fooled by the old status that shows once more within 10 s, after the agent was seen at work', async () => {
      const input = { ...target(), poll: { initialInterval: '2s', backoffCoefficient: 1 } };
      rig.service.reads(input.jobId, BEFORE, ACTIVE, BEFORE, ACTIVE, ACTIVE, LATER);
      expect(await rig.end(await rig.start(input))).toMatchObject({ prLink: link(3) });
    });

    test('does not take the end of a turn that was under way at the send for its own', async () => {
      const input = { ...target(), whenActive: 'send' as const };
      rig.service.reads(input.jobId, ACTIVE, AFTER, AFTER, ACTIVE, ACTIVE, ACTIVE, LATER);
      const result = await rig.end(await rig.start(input));
      expect(result).toMatchObject({ prLink: link(3) });
      expect(tookMs(result)).toBeGreaterThanOrEqual(SETTLE_MS);
    });

    test('keeps polling through jobs without a status and with an unknown one', async () => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE, { id: 'j' }, { id: 'j', status: 'reviewing' }, {}, AFTER);
      expect(await rig.end(await rig.start(input))).toMatchObject({ prLink: link(2), polls: 4 });
    });
  });

  describe('about a job', () => {
    test('sends to a failed job, and returns a job that this turn archived', async () => {
      const failed = target();
      rig.service.reads(failed.jobId, { ...BEFORE, status: 'failed' }, ACTIVE, AFTER);
      expect(await rig.end(await rig.start(failed))).toMatchObject({ status: 'completed', delivery: 'sent' });

      const archived = target();
      rig.service.reads(archived.jobId, BEFORE, ARCHIVED);
      const result = await rig.end(await rig.start(archived));
      expect(result).toMatchObject({ status: 'archived', prLinkChanged: false, observedActive: false });
      expect(tookMs(result)).toBeLessThan(SETTLE_MS);
    });

    test('fails with JobNotFound, as delivered, if the job is gone for three reads in a row after the send', async () => {
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

  describe('about an unknown delivery', () => {
    test.each([
      ['a new status', { ...BEFORE, status: 'failed' }, 'failed'],
      ['a new pull request', AFTER, 'completed'],
      ['a new time of archiving', ARCHIVED, 'archived'],
    ])('infers it from %s', async (_name, shown, status) => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE, BEFORE, BEFORE, shown).sends(UNKNOWN);
      expect(await rig.end(await rig.start(input))).toMatchObject({ delivery: 'inferred', status });
      expect(receivedBy(input.jobId)).toBe(1);
    });

    test('infers it at the last read if all reads were stale until the last byte could have arrived', async () => {
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

    test('takes the end of the previous turn, which a lagging baseline did not show, as no evidence', async () => {
      const input = target();
      await runPreviousTurn(input, AFTER);
      rig.service.reads(input.jobId, BEFORE, AFTER).sends(UNKNOWN);
      expect(await failureOf(rig.end(await rig.start(input)))).toMatchObject({
        type: 'DeliveryUnknown',
        delivered: 'unknown',
      });

      rig.service.reads(input.jobId, BEFORE, AFTER, AFTER, LATER).sends(UNKNOWN);
      expect(await rig.end(await rig.start(input))).toMatchObject({ delivery: 'inferred', prLink: link(3) });
    });

    test('takes nothing as evidence if the job was at work before the send', async () => {
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
    ] as const)('finds no evidence in reads that %s', async (_name, shown) => {
      const input = target();
      rig.service.reads(input.jobId, BEFORE, shown).sends(UNKNOWN);
      const startedMs = await rig.nowMs();
      expect(await failureOf(rig.end(await rig.start(input)))).toMatchObject({ type: 'DeliveryUnknown', job: BEFORE });
      expect((await rig.nowMs()) - startedMs).toBeGreaterThanOrEqual(LAST_BYTE_MS - 1_000);
    });

    test('does not deny it if the second send is rejected, or if it is cancelled before that', async () => {
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

  describe('with an operator who knows better', () => {
    test('is sent again on the word notSent, after the last byte of the first send', async () => {
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

    /** Runs up to the last ask: the send's worker died, and the ask for its outcome is still under way. */
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

    test('accepts the word sent while the last ask is under way', async () => {
      const input = target();
      const handle = await underTheLastAsk(input);
      await handle.executeUpdate(resolveDeliveryUpdate, { args: ['sent'] });
      rig.service.reads(input.jobId, ACTIVE, AFTER);
      expect(await rig.end(handle)).toMatchObject({ delivery: 'assumed', prLink: link(2), observedActive: true });
      expect(receivedBy(input.jobId)).toBe(0);
    });

    test('accepts the word notSent while the last ask is under way', async () => {
      const input = target();
      const handle = await underTheLastAsk(input);
      await handle.executeUpdate(resolveDeliveryUpdate, { args: ['notSent'] });
      rig.service.reads(input.jobId, BEFORE, ACTIVE, AFTER);
      expect(await rig.end(handle)).toMatchObject({ delivery: 'sent', prLink: link(2) });
      expect(receivedBy(input.jobId)).toBe(1);
    });

    test('fails with DeliveryUnknown without a word of the operator', async () => {
      const handle = await underTheLastAsk(target());
      expect(await failureOf(rig.end(handle))).toMatchObject({ type: 'DeliveryUnknown', delivered: 'unknown' });
    });
  });
});
