import { describe, expect, test } from 'vitest';
import { check } from '../../simulation/checker.js';
import type { FollowUpRecord } from '../../simulation/follow-up-record.js';
import type { LedgerEntry } from '../../simulation/service.js';
import { SMALL } from '../../simulation/sizes.js';

const WINDOW_MS = SMALL.windowMs;
const sizes = (limit: number) => ({ limit, windowMs: WINDOW_MS });
const RIGHT = { overBudget: 0, doubled: 0, stuck: 0, lying: 0, fooled: 0, untold: 0 };
const seen = (ledger: LedgerEntry[], turnEndsAtMs: [string, number][] = []) => ({
  ledger,
  turnEndsAtMs: new Map(turnEndsAtMs),
});

describe('the checker', () => {
  test('counts messages that come within a window of the message `limit` places before', () => {
    const ledger = (...times: number[]) => seen(times.map((atMs) => ({ atMs, workflowId: 'x', accepted: false })));
    expect(check(sizes(2), ledger(0, 1, WINDOW_MS), [])).toEqual(RIGHT);
    expect(check(sizes(2), ledger(0, 1, WINDOW_MS - 1), [])).toEqual({ ...RIGHT, overBudget: 1 });
    expect(check(sizes(2), ledger(WINDOW_MS - 1, 1, 0), [])).toEqual({ ...RIGHT, overBudget: 1 });
  });

  test('finds a follow-up that was delivered twice, unless its input allows a resend', () => {
    const ending = { result: 'completed', delivered: 'yes' } as const;
    expect(check(sizes(5), delivered('a', 2), [followUp('a', { ending })])).toEqual({ ...RIGHT, doubled: 1 });
    const resending = followUp('a', { ending, onUnknownDelivery: 'resend' });
    expect(check(sizes(5), delivered('a', 2), [resending])).toEqual(RIGHT);
  });

  test('finds a follow-up that never ended', () => {
    expect(check(sizes(5), seen([]), [followUp('a', {})])).toEqual({ ...RIGHT, stuck: 1 });
  });

  test('finds callers with a wrong answer, and none with the answer "unknown"', () => {
    const told = (word: 'yes' | 'no' | 'unknown') =>
      followUp('a', { ending: { result: 'DeliveryUnknown', delivered: word } });
    expect(check(sizes(5), delivered('a', 1), [told('no')])).toEqual({ ...RIGHT, lying: 1 });
    expect(check(sizes(5), seen([]), [told('yes')])).toEqual({ ...RIGHT, lying: 1 });
    expect(check(sizes(5), delivered('a', 1), [told('unknown')])).toEqual(RIGHT);
    expect(check(sizes(5), delivered('a', 1), [told('yes')])).toEqual(RIGHT);
    expect(check(sizes(5), delivered('a', 1), [followUp('a', { ending: 'terminated' })])).toEqual(RIGHT);
  });

  test('finds a result that came before the turn was over', () => {
    const ending = { result: 'completed', delivered: 'yes' } as const;
    const { ledger } = delivered('a', 1);
    const ended = [followUp('a', { ending, endedAtMs: 10 })];
    expect(check(sizes(5), seen(ledger, [['a', 11]]), ended)).toEqual({ ...RIGHT, fooled: 1 });
    expect(check(sizes(5), seen(ledger, [['a', 10]]), ended)).toEqual(RIGHT);
  });

  test('finds an end that the budget was not told of if the follow-up has asked', () => {
    const ending = { result: 'Cancelled', delivered: 'no' } as const;
    expect(check(sizes(5), seen([]), [followUp('a', { ending, hasAsked: true })])).toEqual({ ...RIGHT, untold: 1 });
    expect(check(sizes(5), seen([]), [followUp('a', { ending, hasAsked: true, hasToldEnd: true })])).toEqual(RIGHT);
    expect(check(sizes(5), seen([]), [followUp('a', { ending })])).toEqual(RIGHT);
  });
});

function delivered(workflowId: string, times: number) {
  return seen(Array.from({ length: times }, (_, index) => ({ atMs: index, workflowId, accepted: true })));
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
    staleForMs: 0,
    beganPost: false,
    hasAsked: false,
    hasToldEnd: false,
    ...more,
  };
}
