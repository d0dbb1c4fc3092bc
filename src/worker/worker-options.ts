import { getHeapStatistics } from 'node:v8';
import type { WorkerOptions } from '@temporalio/worker';
import type { WorkerConfig } from '../config/index.js';

/** From the end of the grace to giving up: enough to report what was cut off. */
const FORCE_AFTER_GRACE_MS = 5_000;

/**
 * How long running sends may take to end when a worker is shut down, in milliseconds: as long as the server lets them
 * run. A send asks the budget for up to 35 s while its answers are lost, then POSTs, then settles; one that was cut
 * short could be a message that nobody can tell from one that was delivered.
 */
export function shutdownGraceMs({ sendStartToCloseMs }: Pick<WorkerConfig, 'sendStartToCloseMs'>): number {
  return sendStartToCloseMs;
}

/** Budgets in the cache: each is up to half a megabyte of state, and one that is asked often should not be replayed. */
const CACHED_BUDGETS = 200;
/** A budget's state as objects, at most. */
const BUDGET_MIB = 2;
/** What the process needs beside it. */
const OTHER_HEAP_MIB = 300;

/** Numbers of the worker that runs follow-ups and their activities. */
export function followUpWorkerOptions(config: WorkerConfig): Omit<WorkerOptions, 'taskQueue'> {
  const graceMs = shutdownGraceMs(config);
  const { cachedWorkflows, workflowTasks, activities, pollers } = config.capacity;
  return {
    maxConcurrentWorkflowTaskExecutions: workflowTasks,
    // With fewer than workflow-task slots, tasks would wait for a local activity's slot while they hold their own.
    maxConcurrentLocalActivityExecutions: workflowTasks,
    maxConcurrentActivityTaskExecutions: activities,
    maxConcurrentWorkflowTaskPolls: Math.min(pollers, workflowTasks),
    maxConcurrentActivityTaskPolls: Math.min(Math.ceil(pollers / 2), activities),
    maxCachedWorkflows: cachedWorkflows,
    // The SDK would fail the workflow task of a payload that the server does not take, again and again at once. The
    // server itself ends the workflow.
    disablePayloadErrorLimit: true,
    shutdownGraceTime: graceMs,
    shutdownForceTime: graceMs + FORCE_AFTER_GRACE_MS,
  };
}

/** Numbers of the worker that runs the budgets. It has no activities. */
export function budgetWorkerOptions(config: WorkerConfig): Omit<WorkerOptions, 'taskQueue'> {
  const graceMs = shutdownGraceMs(config);
  return {
    // A budget's tasks are pure computation and done in milliseconds: the SDK's default is plenty.
    maxConcurrentWorkflowTaskExecutions: 40,
    maxConcurrentWorkflowTaskPolls: 10,
    maxCachedWorkflows: cachedBudgets(),
    // After this time, other workers pick up the budgets of a worker that died. Asks wait until then. The SDK's
    // default of 10 s is the whole deadline of an ask.
    stickyQueueScheduleToStartTimeout: 3_000,
    shutdownGraceTime: graceMs,
    shutdownForceTime: graceMs + FORCE_AFTER_GRACE_MS,
  };
}

/** As many as the heap of this process has room for. */
function cachedBudgets(): number {
  const heapMiB = getHeapStatistics().heap_size_limit / 1_048_576;
  return Math.max(10, Math.min(CACHED_BUDGETS, Math.floor((heapMiB - OTHER_HEAP_MIB) / BUDGET_MIB)));
}
