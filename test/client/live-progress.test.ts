import { describe, expect, test } from 'vitest';
import { placeIn } from '../../src/client/live-progress.js';
import type { BudgetStatus, FollowUpProgress } from '../../src/contract/index.js';

const NOW_MS = Date.parse('2026-11-22T12:00:00Z');
const at = (ms: number) => new Date(NOW_MS + ms).toISOString();
const workflowId = 'follow-up/p/j/k';
/** What the budget told a follow-up ten minutes ago. */
const told = (expectedInMs: number): Extract<FollowUpProgress, { waitReason: string }> => ({
  projectId: 'p',
  jobId: 'j',
  state: 'waiting-for-budget',
  waitReason: 'slot',
  learnedAt: at(-600_000),
  position: 5,
  expectedSendAt: at(expectedInMs),
  polls: 0,
});
const budget = (more: Partial<BudgetStatus>): { status: BudgetStatus } => ({
  status: {
    projectId: 'p',
    limit: 100,
    windowMs: 3_600_000,
    reserve: 0,
    used: 100,
    unsettled: 0,
    waiting: [],
    waitingTotal: 1,
    waitingInBatchLane: 0,
    waitingForJob: 0,
    lastSends: [],
    ...more,
  },
});
const waiter = { workflowId, jobId: 'j', lane: 'interactive', position: 2, expectedAt: at(60_000) } as const;

describe('a follow-up that waits for its slot', () => {
  test('shows its current place, not the one that it was told', () => {
    const live = placeIn(budget({ waiting: [waiter] }), waiter, told(-30_000), NOW_MS);
    expect(live).toMatchObject({ position: 2, expectedSendAt: at(60_000) });
    expect(live).not.toHaveProperty('asOf');
    expect(live).not.toHaveProperty('overdue');
  });

  test('has no expected time if the budget gives none', () => {
    const { expectedAt: _expectedAt, ...without } = waiter;
    expect(placeIn(budget({ waiting: [without] }), without, told(1_000), NOW_MS)).not.toHaveProperty('expectedSendAt');
  });

  test('is overdue, with the reason, if its expected time has passed and the budget does not answer', () => {
    const live = placeIn({ silence: 'it is paused in Temporal' }, undefined, told(-10_000), NOW_MS);
    expect(live).toMatchObject({ position: 5, expectedSendAt: at(-10_000), asOf: at(-600_000) });
    expect(live.overdue).toBe('the budget does not answer: it is paused in Temporal');
  });

  test.each([60_000, -2_000])('is not overdue %i ms from its expected time, and says how old its place is', (ms) => {
    const live = placeIn({ silence: 'no worker runs' }, undefined, told(ms), NOW_MS);
    expect(live).toMatchObject({ asOf: at(-600_000) });
    expect(live).not.toHaveProperty('overdue');
  });

  test('keeps what it was told if the budget does not know it, and says how old that is', () => {
    expect(placeIn(budget({}), undefined, told(60_000), NOW_MS)).toMatchObject({ position: 5, asOf: at(-600_000) });
  });

  test.each([
    [['operator'], 'paused'],
    [['limited', 'credentials'], 'paused'],
    [['credentials'], 'credentials'],
  ] as const)('is blocked without a place while %j pauses its project; the reason is %s', (reasons, waitReason) => {
    const answer = budget({ waiting: [waiter], paused: { reasons: [...reasons] } });
    const live = placeIn(answer, waiter, told(60_000), NOW_MS);
    expect(live).toMatchObject({ state: 'blocked', waitReason });
    expect(live).not.toHaveProperty('position');
    expect(live).not.toHaveProperty('expectedSendAt');
  });
});
