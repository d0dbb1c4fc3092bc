import type { PauseReason } from '../contract/index.js';
import type { KnownBudget } from './budget-metrics.js';
import { prometheusText, type Metric } from './prometheus-text.js';

const pauseReasons = ['operator', 'limited', 'credentials'] as const satisfies readonly PauseReason[];

/** The metrics of budgets, as docs/reference/metrics.md lists them. */
export function budgetMetricsText(budgets: readonly KnownBudget[], leftOut: number): string {
  const byProject = (value: (budget: KnownBudget) => number | undefined): Metric['samples'] =>
    budgets.flatMap((budget) => {
      const number = value(budget);
      return number === undefined ? [] : [{ labels: { project: budget.facts.projectId }, value: number }];
    });
  const gauge = (name: string, help: string, value: (budget: KnownBudget) => number | undefined): Metric => ({
    name: `follow_up_budget_${name}`,
    type: 'gauge',
    help,
    samples: byProject(value),
  });
  const counter = (name: string, help: string, value: (budget: KnownBudget) => number): Metric => ({
    name: `follow_up_budget_${name}_total`,
    type: 'counter',
    help,
    samples: byProject(value),
  });
  return prometheusText([
    gauge('limit', 'Messages per window', ({ facts }) => facts.limit),
    gauge('window_seconds', 'Length of the rolling window', ({ facts }) => facts.windowMs / 1_000),
    gauge('used', 'Slots that are occupied', ({ facts, budgetNowMs }) => countAfter(facts.slotEndsMs, budgetNowMs)),
    gauge('utilisation_ratio', 'Messages of the last window by the limit', utilisationOf),
    gauge('unsettled', 'Messages under way', ({ facts, budgetNowMs }) => countAfter(facts.leaseEndsMs, budgetNowMs)),
    gauge('waiting', 'Follow-ups in the queue', ({ facts }) => facts.waiting),
    gauge('waiting_for_job', 'Follow-ups in the queue whose job is busy', ({ facts }) => facts.waitingForJob),
    {
      name: 'follow_up_budget_paused',
      type: 'gauge',
      help: '1 while nothing, or but one message at a time, is let through for that reason',
      samples: budgets.flatMap((budget) =>
        pauseReasons.map((reason) => ({
          labels: { project: budget.facts.projectId, reason },
          value: isPausedBy(reason, budget) ? 1 : 0,
        })),
      ),
    },
    counter('grants', 'Messages that were let through', ({ grants }) => grants),
    counter('limited', 'Messages that the service answered with 429', ({ limited }) => limited),
    gauge(
      'reported_timestamp_seconds',
      'When this worker last ran the budget, by the clock of Temporal',
      ({ reportedAtMs }) => reportedAtMs / 1_000,
    ),
    single('projects', 'Projects that this worker shows', budgets.length),
    single('projects_left_out', 'Projects heard of within the hour that this worker does not show', leftOut),
  ]);
}

function single(name: string, help: string, value: number): Metric {
  return { name: `follow_up_budget_${name}`, type: 'gauge', help, samples: [{ value }] };
}

/** Instants that are still to come. */
function countAfter(instantsMs: readonly number[], nowMs: number): number {
  return instantsMs.filter((atMs) => atMs > nowMs).length;
}

/** Without a value where nothing may be sent. Above 1 after the limit was lowered. */
function utilisationOf({ facts: { sentAtMs, windowMs, limit }, budgetNowMs }: KnownBudget): number | undefined {
  return limit > 0 ? countAfter(sentAtMs, budgetNowMs - windowMs) / limit : undefined;
}

function isPausedBy(reason: PauseReason, { facts, budgetNowMs }: KnownBudget): boolean {
  if (reason !== 'operator') return facts.servicePause === reason;
  return facts.operatorPause !== undefined && budgetNowMs < (facts.operatorPause.untilMs ?? Infinity);
}
