import { afterEach, expect, test, vi } from 'vitest';
import { createBudgetMetrics } from '../../src/workflows/budget-metrics.js';
import { Desk, OVER } from '../budget/support.js';

const gauges = vi.hoisted(() => new Map<string, number>());
vi.mock('@temporalio/workflow', () => ({
  metricMeter: {
    createCounter: () => ({ add: () => undefined }),
    createGauge: (name: string) => ({ set: (value: number) => gauges.set(name, value) }),
  },
}));
afterEach(() => vi.useRealTimers());

test('the messages under way are those of which a byte may still arrive', () => {
  vi.useFakeTimers();
  const desk = new Desk();
  const record = createBudgetMetrics('project', desk.budget);
  desk.ask('a');
  vi.setSystemTime(desk.nowMs);
  record();
  expect(gauges.get('follow_up_budget_unsettled')).toBe(1);
  // Nothing has happened to the budget since.
  vi.setSystemTime(desk.nowMs + OVER);
  record();
  expect(gauges.get('follow_up_budget_unsettled')).toBe(0);
  expect(gauges.get('follow_up_budget_used')).toBe(1);
});
