import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { BudgetFacts } from '../../src/budget/index.js';
import type { BudgetReport } from '../../src/workflows/budget-reporter.js';
import { BudgetMetrics } from '../../src/worker/budget-metrics.js';
import { budgetSamples, samplesOf } from './prometheus.js';

const T0 = Date.UTC(2026, 0, 1);
const HOUR_MS = 3_600_000;

/** A clock that is moved by hand. */
function manualClock() {
  let nowMs = 0;
  return {
    advance: (ms: number) => void (nowMs += ms),
    stopwatch: () => {
      const startedMs = nowMs;
      return () => nowMs - startedMs;
    },
  };
}

function reportOf(facts: Partial<BudgetFacts>, more: Partial<BudgetReport> = {}): BudgetReport {
  return {
    facts: {
      projectId: 'p',
      limit: 4,
      windowMs: HOUR_MS,
      slotEndsMs: [],
      sentAtMs: [],
      leaseEndsMs: [],
      waiting: 0,
      waitingForJob: 0,
      ...facts,
    },
    budgetTimeMs: T0,
    grants: { from: 0, to: 0 },
    limited: { from: 0, to: 0 },
    ...more,
  };
}

describe('the metrics of a budget', () => {
  test('change as time passes: slots, leases and timed pauses end, and sends leave the window', () => {
    const { advance, stopwatch } = manualClock();
    const metrics = new BudgetMetrics({ stopwatch });
    metrics.report(
      'run',
      reportOf({
        slotEndsMs: [T0 + 10_000, T0 + 20_000],
        sentAtMs: [T0 - HOUR_MS + 5_000, T0],
        leaseEndsMs: [T0 + 3_000],
        operatorPause: { untilMs: T0 + 4_000 },
      }),
    );
    const now = () => budgetSamples(metrics.text(), 'p');
    expect(now()).toMatchObject({
      limit: 4,
      window_seconds: 3_600,
      used: 2,
      utilisation_ratio: 0.5,
      unsettled: 1,
      'paused{reason="operator"}': 1,
      'paused{reason="limited"}': 0,
      'paused{reason="credentials"}': 0,
      reported_timestamp_seconds: T0 / 1_000,
    });
    advance(3_000);
    expect(now()).toMatchObject({ unsettled: 0, 'paused{reason="operator"}': 1 });
    advance(2_000);
    expect(now()).toMatchObject({ used: 2, utilisation_ratio: 0.25, 'paused{reason="operator"}': 0 });
    advance(5_000);
    expect(now()).toMatchObject({ used: 1 });
    advance(HOUR_MS);
    expect(now()).toMatchObject({ used: 0, utilisation_ratio: 0, reported_timestamp_seconds: T0 / 1_000 });
  });

  test('count a step once, however often its workflow task runs', () => {
    const metrics = new BudgetMetrics();
    const step = (runId: string, from: number, to: number) =>
      metrics.report(runId, reportOf({}, { grants: { from, to }, limited: { from: 0, to: Math.min(to, 1) } }));
    step('run-1', 90, 91);
    step('run-1', 90, 91);
    step('run-1', 90, 92);
    expect(budgetSamples(metrics.text(), 'p')).toMatchObject({ grants_total: 2, limited_total: 1 });
    // What another worker did in between is not counted here.
    step('run-1', 95, 96);
    expect(budgetSamples(metrics.text(), 'p')).toMatchObject({ grants_total: 3, limited_total: 1 });
    step('run-2', 96, 97);
    // A budget whose state was lost starts again from 0.
    step('run-3', 0, 1);
    expect(budgetSamples(metrics.text(), 'p')).toMatchObject({ grants_total: 5 });
  });

  test('have no utilisation if nothing may be sent', () => {
    const metrics = new BudgetMetrics();
    metrics.report('run', reportOf({ limit: 0, sentAtMs: [T0] }));
    expect(budgetSamples(metrics.text(), 'p')).not.toHaveProperty('utilisation_ratio');
  });

  test('disappear when the project is dropped', () => {
    const metrics = new BudgetMetrics();
    metrics.report('run', reportOf({}));
    metrics.drop('p');
    expect(budgetSamples(metrics.text(), 'p')).toEqual({});
    expect(samplesOf(metrics.text()).get('follow_up_budget_projects')).toBe(0);
  });
});

test('only as many projects are shown as there is room for; others are counted, and replace silent ones', () => {
  const { advance, stopwatch } = manualClock();
  const metrics = new BudgetMetrics({ maxProjects: 2, stopwatch });
  for (const projectId of ['a', 'b', 'c']) metrics.report('run', reportOf({ projectId }));
  const totals = () => {
    const samples = samplesOf(metrics.text());
    return [samples.get('follow_up_budget_projects'), samples.get('follow_up_budget_projects_left_out')];
  };
  expect(totals()).toEqual([2, 1]);
  expect(budgetSamples(metrics.text(), 'c')).toEqual({});
  advance(HOUR_MS - 1);
  metrics.report('run', reportOf({ projectId: 'a' }));
  metrics.report('run', reportOf({ projectId: 'c' }));
  expect(totals()).toEqual([2, 1]);
  advance(1);
  metrics.report('run', reportOf({ projectId: 'c' }));
  expect(totals()).toEqual([2, 0]);
  expect(budgetSamples(metrics.text(), 'b')).toEqual({});
  expect(budgetSamples(metrics.text(), 'a')).toHaveProperty('used');
  metrics.report('run', reportOf({ projectId: 'b' }));
  expect(totals()).toEqual([2, 1]);
  advance(HOUR_MS);
  expect(totals()).toEqual([2, 0]);
});

test('the reference lists every series, and no other', () => {
  const metrics = new BudgetMetrics();
  metrics.report('run', reportOf({}));
  const shown = [...metrics.text().matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name, type]) => `${name} ${type}`);
  const page = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'reference', 'metrics.md'), 'utf8');
  const [, section = ''] = page.split('\n## Metrics of budgets\n');
  const rows = [...section.matchAll(/^\| `(follow_up_budget_\w+)` +\| (gauge|counter) /gm)];
  expect(rows.map(([, name, type]) => `${name} ${type}`)).toEqual(shown);
});

test('every series has a help text, a type and one line', () => {
  const metrics = new BudgetMetrics();
  metrics.report('run', reportOf({}));
  const text = metrics.text();
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  const names = new Set(lines.map((line) => line.split(/[{ ]/)[0] ?? ''));
  for (const name of names) {
    expect(text).toMatch(new RegExp(`^# HELP ${name} .+$`, 'm'));
    expect(text).toMatch(new RegExp(`^# TYPE ${name} ${name.endsWith('_total') ? 'counter' : 'gauge'}$`, 'm'));
  }
  expect(new Set(lines.map((line) => line.slice(0, line.lastIndexOf(' ')))).size).toBe(lines.length);
  expect(text.endsWith('\n')).toBe(true);
});
