import type { MetricMeter } from '@temporalio/common';
import { afterEach, expect, test, vi } from 'vitest';
import { createBudgetMetrics } from '../../src/workflows/budget-metrics.js';
import { Desk, OVER } from '../budget/rules.js';

afterEach(() => vi.useRealTimers());

test('the metric of messages under way counts those of which a byte may still arrive', () => {
  vi.useFakeTimers();
  const gauges = new Map<string, number>();
  const meter = {
    createCounter: () => ({ add: () => undefined }),
    createGauge: (name: string) => ({ set: (value: number) => gauges.set(name, value) }),
  };
  const desk = new Desk();
  const record = createBudgetMetrics('project', desk.state, meter as unknown as MetricMeter);
  desk.ask('a');
  vi.setSystemTime(desk.nowMs);
  record();
  expect(gauges.get('follow_up_budget_under_way')).toBe(1);
  // Nothing has happened to the budget since.
  vi.setSystemTime(desk.nowMs + OVER);
  record();
  expect(gauges.get('follow_up_budget_under_way')).toBe(0);
  expect(gauges.get('follow_up_budget_used')).toBe(1);
});
