import { describe, expect, test } from 'vitest';
import { check } from '../../src/simulation/checker.js';
import type { FollowUpRecord } from '../../src/simulation/follow-up-record.js';
import { SMALL } from '../../src/simulation/sizes.js';

const WINDOW_MS = SMALL.windowMs;
const sizes = (limit: number) => ({ limit, windowMs: WINDOW_MS });
const RIGHT = { overBudget: 0, doubled: 0, stuck: 0, lying: 0 };

describe('the checker', () => {
  test('counts messages that come before the window of the one `limit` places ahead has passed', () => {
    const ledger = (...times: number[]) => times.map((atMs) => ({ atMs, workflowId: 'x', accepted: false }));
    expect(check(sizes(2), ledger(0, 1, WINDOW_MS), [])).toEqual(RIGHT);
    expect(check(sizes(2), ledger(0, 1, WINDOW_MS - 1), [])).toEqual({ ...RIGHT, overBudget: 1 });
    expect(check(sizes(2), ledger(WINDOW_MS - 1, 1, 0), [])).toEqual({ ...RIGHT, overBudget: 1 });
  });

  test('finds a follow-up that was delivered twice, unless it had asked for that', () => {
    const ending = { result: 'completed', delivered: 'yes' } as const;
    expect(check(sizes(5), delivered('a', 2), [followUp('a', { ending })])).toEqual({ ...RIGHT, doubled: 1 });
    const resending = followUp('a', { ending, onUnknownDelivery: 'resend' });
    expect(check(sizes(5), delivered('a', 2), [resending])).toEqual(RIGHT);
  });

  test('finds a follow-up that never ended', () => {
    expect(check(sizes(5), [], [followUp('a', {})])).toEqual({ ...RIGHT, stuck: 1 });
  });

  test('finds callers who were told the wrong thing, and none who were told that nobody knows', () => {
    const told = (word: 'yes' | 'no' | 'unknown') =>
      followUp('a', { ending: { result: 'DeliveryUnknown', delivered: word } });
    expect(check(sizes(5), delivered('a', 1), [told('no')])).toEqual({ ...RIGHT, lying: 1 });
    expect(check(sizes(5), [], [told('yes')])).toEqual({ ...RIGHT, lying: 1 });
    expect(check(sizes(5), delivered('a', 1), [told('unknown')])).toEqual(RIGHT);
    expect(check(sizes(5), delivered('a', 1), [told('yes')])).toEqual(RIGHT);
    expect(check(sizes(5), delivered('a', 1), [followUp('a', { ending: 'terminated' })])).toEqual(RIGHT);
  });
});

function delivered(workflowId: string, times: number) {
  return Array.from({ length: times }, (_, index) => ({ atMs: index, workflowId, accepted: true }));
}

function followUp(workflowId: string, more: Partial<FollowUpRecord>): FollowUpRecord {
  return {
    workflowId,
    jobId: 'j',
    lane: 'batch',
    startsAtMs: 0,
    onUnknownDelivery: 'fail',
    budgetWaitTimeoutMs: 1,
    jobAtWorkUntilMs: 0,
    turnMs: { min: 0, max: 0 },
    showsDelivery: false,
    beganPost: false,
    ...more,
  };
}
