import type { InjectedSinks } from '@temporalio/worker';
import type { BudgetFacts } from '../budget/index.js';
import type { PauseReason } from '../contract/index.js';
import { startStopwatch } from '../stopwatch.js';
import type { BudgetReport, BudgetSinks, CountStep } from '../workflows/budget-reporter.js';
import { type Metric, prometheusText } from './metrics.js';

/** Most projects whose metrics are shown. Each has a dozen time series. */
const MAX_PROJECTS = 500;

/** A project that has been silent for longer gives up its place to another. */
const ROOM_AFTER_MS = 3_600_000;

/** What this worker knows of one project's budget. */
export interface KnownBudget {
  facts: BudgetFacts;
  /** Budget time now, in epoch milliseconds: that of the last report plus the time since. */
  budgetNowMs: number;
  /** Budget time of the last report. */
  reportedAtMs: number;
  /** Grants that this worker has seen since it first showed the project. */
  grants: number;
  /** 429s that this worker has seen since then. */
  limited: number;
}

interface Entry extends Omit<KnownBudget, 'budgetNowMs'> {
  runId: string;
  /** The budget's counts up to which `grants` and `limited` include them. */
  counted: { grants: number; limited: number };
  silentForMs: () => number;
}

/**
 * What this worker knows of the budgets that it runs. Each budget reports when it changes. What changes only with time
 * is computed when it is asked for. A budget may move to another worker without notice; the caller that finds out calls
 * {@link BudgetMetrics.drop}.
 */
export class BudgetMetrics {
  readonly #entries = new Map<string, Entry>();
  /** Projects for which there was no room, with the time since their last report. */
  readonly #leftOut = new Map<string, () => number>();
  readonly #maxProjects: number;
  readonly #stopwatch: () => () => number;

  /**
   * @param options.maxProjects projects to show at most
   * @param options.stopwatch starts the measurement of the milliseconds since a report
   */
  constructor({
    maxProjects = MAX_PROJECTS,
    stopwatch = startStopwatch,
  }: { maxProjects?: number; stopwatch?: () => () => number } = {}) {
    this.#maxProjects = maxProjects;
    this.#stopwatch = stopwatch;
  }

  /** Sinks for the worker that runs the budgets. */
  readonly sinks: InjectedSinks<BudgetSinks> = {
    followUpBudget: {
      report: { fn: ({ runId }, report) => this.report(runId, report), callDuringReplay: false },
    },
  };

  /** Accepts a report of a budget's run. The same report may come twice. */
  report(runId: string, { facts, budgetTimeMs, grants, limited }: BudgetReport): void {
    const { projectId } = facts;
    const known = this.#entries.get(projectId);
    if (!known && !this.#makeRoom()) {
      this.#leftOut.set(projectId, this.#stopwatch());
      return;
    }
    this.#leftOut.delete(projectId);
    const counted = known?.runId === runId ? known.counted : { grants: grants.from, limited: limited.from };
    this.#entries.set(projectId, {
      facts,
      runId,
      reportedAtMs: budgetTimeMs,
      grants: (known?.grants ?? 0) + stepBeyond(counted.grants, grants),
      limited: (known?.limited ?? 0) + stepBeyond(counted.limited, limited),
      counted: {
        grants: Math.max(counted.grants, grants.to),
        limited: Math.max(counted.limited, limited.to),
      },
      silentForMs: this.#stopwatch(),
    });
  }

  /** Forgets a project: another worker runs its budget now, or nobody does. */
  drop(projectId: string): void {
    this.#entries.delete(projectId);
  }

  /** Projects without a report for at least `silentForMs` milliseconds. */
  silentProjects(silentForMs: number): string[] {
    return [...this.#entries].filter(([, entry]) => entry.silentForMs() >= silentForMs).map(([projectId]) => projectId);
  }

  /** All metrics in Prometheus' text format. */
  text(): string {
    for (const [projectId, silentForMs] of this.#leftOut) {
      if (silentForMs() >= ROOM_AFTER_MS) this.#leftOut.delete(projectId);
    }
    const budgets = [...this.#entries.values()].map((entry) => ({
      ...entry,
      budgetNowMs: entry.reportedAtMs + entry.silentForMs(),
    }));
    return budgetMetricsText(budgets, this.#leftOut.size);
  }

  /**
   * Whether there is room for one more project. Only a project that was silent for long gives up its place. If the one
   * with the oldest report did, many busy projects would come and go with every report, and their counters with them.
   */
  #makeRoom(): boolean {
    if (this.#entries.size < this.#maxProjects) return true;
    const [silent] = this.silentProjects(ROOM_AFTER_MS);
    if (silent === undefined) return false;
    this.drop(silent);
    return true;
  }
}

/** How much of a step is not counted yet. */
function stepBeyond(counted: number, { from, to }: CountStep): number {
  return Math.max(0, to - Math.max(counted, from));
}

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

/** The number of times that are in the future. */
function countAfter(instantsMs: readonly number[], nowMs: number): number {
  return instantsMs.filter((atMs) => atMs > nowMs).length;
}

/** Without a value if nothing may be sent. Above 1 after the limit was lowered. */
function utilisationOf({ facts: { sentAtMs, windowMs, limit }, budgetNowMs }: KnownBudget): number | undefined {
  return limit > 0 ? countAfter(sentAtMs, budgetNowMs - windowMs) / limit : undefined;
}

function isPausedBy(reason: PauseReason, { facts, budgetNowMs }: KnownBudget): boolean {
  if (reason !== 'operator') return facts.servicePause === reason;
  return facts.operatorPause !== undefined && budgetNowMs < (facts.operatorPause.untilMs ?? Infinity);
}
