import { describe, expect, test } from 'vitest';
import { readReport } from '../../src/contract/protocol.js';
import { fingerprint, isBelieved, needsConfirmation, showsDelivery } from '../../src/follow-up/belief.js';
import { backoffMs, jittered, nextInterval } from '../../src/follow-up/look.js';

const before = { status: 'completed', prLink: 'https://git.example/1', archivedAt: null };
const active = { status: 'active', prLink: null };
const after = { ...before, prLink: 'https://git.example/2' };
const context = { baseline: before, sentAtMs: 0, settleTimeMs: 120_000 };

describe('a terminal status is believed', () => {
  test('when the job was seen at work since the send', () => {
    expect(isBelieved(before, context, true, 20_000)).toBe(true);
    expect(isBelieved(before, context, false, 20_000)).toBe(false);
  });

  test('when something differs from the baseline', () => {
    expect(isBelieved(after, context, false, 20_000)).toBe(true);
    expect(isBelieved({ ...before, status: 'failed' }, context, false, 20_000)).toBe(true);
    expect(isBelieved({ ...before, archivedAt: '2026-01-01T00:00:00Z' }, context, false, 20_000)).toBe(true);
  });

  test('not when it differs from an older baseline but equals the end of the previous turn', () => {
    const lastTurn = fingerprint(after);
    expect(isBelieved(after, { ...context, lastTurn }, false, 20_000)).toBe(false);
    expect(isBelieved({ ...after, prLink: 'https://git.example/3' }, { ...context, lastTurn }, false, 20_000)).toBe(
      true,
    );
  });

  test('when the settle time has passed, to the millisecond', () => {
    expect(isBelieved(before, context, false, 119_999)).toBe(false);
    expect(isBelieved(before, context, false, 120_000)).toBe(true);
  });

  test('with an active baseline only after the settle time', () => {
    const steering = { ...context, baseline: active };
    expect(isBelieved(after, steering, true, 119_999)).toBe(false);
    expect(isBelieved(after, steering, true, 120_000)).toBe(true);
  });

  test('never when it is not a terminal status that this project knows', () => {
    for (const status of ['active', 'queued', undefined]) {
      expect(isBelieved(status === undefined ? {} : { status }, context, true, 999_999)).toBe(false);
    }
  });

  test('only after one more poll within 10 s of the send', () => {
    expect(needsConfirmation(0, 9_999, false)).toBe(true);
    expect(needsConfirmation(0, 9_999, true)).toBe(false);
    expect(needsConfirmation(0, 10_000, false)).toBe(false);
  });
});

describe('delivery is shown by', () => {
  test('a job that left its terminal status, or shows something new', () => {
    expect(showsDelivery(active, context)).toBe(true);
    expect(showsDelivery({ status: 'queued' }, context)).toBe(true);
    expect(showsDelivery(after, context)).toBe(true);
    expect(showsDelivery(before, context)).toBe(false);
  });

  test('nothing at all with an active baseline', () => {
    expect(showsDelivery(after, { baseline: active })).toBe(false);
  });
});

test('polls back off up to the longest interval and vary by a tenth', () => {
  const poll = { maxIntervalMs: 60_000, backoffCoefficient: 1.5 };
  expect(nextInterval(5_000, poll)).toBe(7_500);
  expect(nextInterval(50_000, poll)).toBe(60_000);
  expect([jittered(10_000, 0), jittered(10_000, 0.5), jittered(10_000, 1)]).toEqual([9_000, 10_000, 11_000]);
  expect([1, 2, 3, 7, 50].map(backoffMs)).toEqual([1_000, 2_000, 4_000, 60_000, 60_000]);
});

test('the fingerprint of a job is short, whatever the service wrote there, and still tells jobs apart', () => {
  const endless = (end: string) =>
    fingerprint({ ...before, prLink: 'x'.repeat(100_000) + end, archivedAt: '9'.repeat(100_000) + end });
  const message = { kind: 'finish', workflowId: 'w', jobId: 'j', sendNumber: 1, lastJobSeen: endless('1') };
  expect(readReport([message]).words).toEqual([message]);
  expect(JSON.stringify(message).length).toBeLessThan(200);
  expect(endless('1')).not.toEqual(endless('2'));
  expect(fingerprint({ ...before, archivedAt: '2026-01-01T00:00:00.000Z' }).archivedAt).toBe(
    '2026-01-01T00:00:00.000Z',
  );
});
