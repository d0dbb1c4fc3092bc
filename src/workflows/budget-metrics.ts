import { metricMeter } from '@temporalio/workflow';
import type { Budget } from '../budget/budget.js';
import { refusals } from '../contract/budget-messages.js';

/** Returns what reports the metrics of a budget. One that moves to another worker leaves its last values on the old one. */
export function createBudgetMetrics(project: string, budget: Budget): () => void {
  const counter = (suffix: string, help: string, by: number) =>
    metricMeter.createCounter(`follow_up_budget_${suffix}`, undefined, help).add(by, { project });
  const gauge = (suffix: string, help: string, value: number, tags: Record<string, string> = {}) =>
    metricMeter.createGauge(`follow_up_budget_${suffix}`, 'float', undefined, help).set(value, { project, ...tags });
  let counted = { ...budget.state.counts };
  return () => {
    const { settings, waiters, grants, servicePause, counts } = budget.state;
    const nowMs = Date.now();
    counter('grants', 'Messages that were let through', counts.grants - counted.grants);
    counter('limited', 'Messages that the service answered with 429', counts.limited - counted.limited);
    counted = { ...counts };
    gauge('limit', 'Messages in a window', budget.configuredLimit);
    gauge('window_seconds', 'Length of the rolling window', settings.windowMs / 1_000);
    gauge('used', 'Slots that are occupied', budget.slotEnds().length);
    gauge('unsettled', 'Messages under way', grants.length);
    gauge('waiting', 'Follow-ups in the queue', waiters.length);
    const waitingForJob = waiters.length - budget.line().length;
    gauge('waiting_for_job', 'Follow-ups in the queue whose job is busy', waitingForJob);
    const reportedHelp = 'When this worker last ran the budget, by the clock of Temporal';
    gauge('reported_timestamp_seconds', reportedHelp, nowMs / 1_000);
    const setPaused = (reason: string, isPaused: boolean) => {
      const help = 'Whether nothing, or but one message at a time, is let through';
      gauge('paused', help, isPaused ? 1 : 0, { reason });
    };
    setPaused('operator', budget.isPausedByOperator(nowMs));
    for (const reason of refusals) setPaused(reason, servicePause?.reason === reason);
  };
}
