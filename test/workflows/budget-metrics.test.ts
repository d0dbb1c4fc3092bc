import type { MetricMeter } from '@temporalio/common';
import { afterEach, expect, test, vi } from 'vitest';
import { createBudgetMetrics } from '../../src/workflows/budget-metrics.js';
import { OVER, TestBudget } from '../budget/support.js';

afterEach(() => vi.useRealTimers());

test('the metric of messages under way counts a send until no byte of it can arrive', () => {
  vi.useFakeTimers();
  const gauges = new Map<string, number>();
  const meter = {
    createCounter: () => ({ add: () => undefined }),
    createGauge: (name: string) => ({ set: (value: number) => gauges.set(name, value) }),
  };
  const budget = new TestBudget();
  const record = createBudgetMetrics('project', budget.state, meter as unknown as MetricMeter);
  budget.ask('a');
  vi.setSystemTime(budget.nowMs);
  record();
  expect(gauges.get('follow_up_budget_under_way')).toBe(1);
  // Nothing has happened to the budget since.
  vi.setSystemTime(budget.nowMs + OVER);
  record();
  expect(gauges.get('follow_up_budget_under_way')).toBe(0);
  expect(gauges.get('follow_up_budget_used')).toBe(1);
});
