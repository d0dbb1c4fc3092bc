import type { MetricMeter } from '@temporalio/common';
import { metricMeter } from '@temporalio/workflow';
import { lineOf } from '../budget/line.js';
import { isPausedByOperator, servicePauseOf } from '../budget/pauses.js';
import { limitOf, slotEnds } from '../budget/slots.js';
import type { BudgetState } from '../budget/state.js';
import { refusals } from '../contract/index.js';

/**
 * Returns a function that reports the metrics of a budget. A budget that moves leaves its last values on the old
 * worker.
 */
export function createBudgetMetrics(project: string, state: BudgetState, meter: MetricMeter = metricMeter): () => void {
  const counter = (suffix: string, help: string) => {
    const metric = meter.createCounter(`follow_up_budget_${suffix}`, undefined, help);
    return (by: number) => metric.add(by, { project });
  };
  const gauge = (suffix: string, help: string) => {
    const metric = meter.createGauge(`follow_up_budget_${suffix}`, 'float', undefined, help);
    return (value: number, tags: Record<string, string> = {}) => metric.set(value, { project, ...tags });
  };
  const countGrants = counter('grants', 'Messages that were granted');
  const countLimited = counter('limited', 'Messages that the service answered with 429');
  const setLimit = gauge('limit', 'Messages allowed in a window');
  const setWindow = gauge('window_seconds', 'Length of the rolling window');
  const setUsed = gauge('used', 'Slots in use');
  const setUnderWay = gauge('under_way', 'Messages being sent');
  const setWaiting = gauge('waiting', 'Follow-ups in the queue');
  const setWaitingForJob = gauge('waiting_for_job', 'Follow-ups in the queue whose job is busy');
  const setPaused = gauge('paused', 'Whether the budget is paused: it sends nothing, or one message at a time');
  const setReported = gauge('reported_timestamp_seconds', "When this worker last ran the budget, by Temporal's clock");
  let reported = { ...state.counts };
  return () => {
    const { settings, waiters, grants, counts } = state;
    const nowMs = Date.now();
    const line = lineOf(state, nowMs);
    const servicePause = servicePauseOf(state, line, nowMs);
    countGrants(counts.grants - reported.grants);
    countLimited(counts.limited - reported.limited);
    reported = { ...counts };
    setLimit(limitOf(state));
    setWindow(settings.windowMs / 1_000);
    setUsed(slotEnds(state).filter((endMs) => endMs > nowMs).length);
    setUnderWay(grants.filter(({ overAtMs }) => overAtMs > nowMs).length);
    setWaiting(waiters.length);
    setWaitingForJob(waiters.length - line.length);
    setPaused(isPausedByOperator(state, nowMs) ? 1 : 0, { reason: 'operator' });
    for (const reason of refusals) setPaused(servicePause?.reason === reason ? 1 : 0, { reason });
    setReported(nowMs / 1_000);
  };
}
