import { describe, expect, test } from 'vitest';
import { endOf, endStates, FailureType, isEndState, openStates } from '../../src/contract/index.js';

const failed = (type: FailureType, delivered: 'yes' | 'no' | 'unknown') => ({ type, delivered, message: 'why' });

describe('the end state of a follow-up', () => {
  test.each([
    ['completed', 'completed'],
    ['archived', 'archived'],
    ['failed', 'job-failed'],
  ] as const)('a result with status %s is %s, without a failure', (status, state) => {
    const ended = endOf({ status });
    expect(ended.state).toBe(state);
    expect(ended.failure ?? null).toBeNull();
  });

  test.each([
    ['InvalidInput', 'no', 'not-sent'],
    ['JobNotFound', 'no', 'not-sent'],
    ['JobArchived', 'no', 'not-sent'],
    ['MessageRejected', 'no', 'not-sent'],
    ['BudgetWaitTimeout', 'no', 'not-sent'],
    ['Closed', 'no', 'not-sent'],
    ['Cancelled', 'no', 'cancelled'],
    ['Cancelled', 'yes', 'cancelled'],
    ['JobTimeout', 'yes', 'timed-out'],
    ['JobNotFound', 'yes', 'job-failed'],
  ] as const)('%s with delivered %s is %s, and keeps its failure', (type, delivered, state) => {
    expect(endOf(failed(type, delivered))).toEqual({ state, failure: { type, delivered, message: 'why' } });
  });

  test.each(Object.values(FailureType))('%s with an unknown delivery is delivery-unknown', (type) => {
    expect(endOf(failed(type, 'unknown'))).toMatchObject({ state: 'delivery-unknown', failure: { type } });
  });

  test('no state of a running follow-up counts as an end', () => {
    expect(openStates.filter(isEndState)).toEqual([]);
    expect(endStates.filter(isEndState)).toEqual(endStates);
  });
});
