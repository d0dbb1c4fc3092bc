import { getHeapStatistics } from 'node:v8';
import type { WorkerOptions } from '@temporalio/worker';
import type { WorkerConfig } from '../config.js';

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

/**
 * What a workflow in the cache may hold. A follow-up: 0.25 MiB (docs/benchmarks.md), and a prompt of up to as much again.
 * A budget: its state, carried as half a megabyte, as objects.
 */
const FOLLOW_UP_MIB = 0.5;
const BUDGET_MIB = 2;
/** What the process needs beside them. */
const OTHER_HEAP_MIB = 300;

/** Workflows to keep in the cache: `most`, or what the heap of this process has room for. */
function cachedWorkflows(most: number, eachMiB: number): number {
  const heapMiB = getHeapStatistics().heap_size_limit / 1_048_576;
  return Math.max(10, Math.min(most, Math.floor((heapMiB - OTHER_HEAP_MIB) / eachMiB)));
}

/** Numbers of the worker that runs follow-ups and their activities. */
export function followUpWorkerOptions(config: WorkerConfig): Omit<WorkerOptions, 'taskQueue'> {
  const graceMs = shutdownGraceMs(config);
  return {
    // A poll holds its workflow-task slot while the GET runs. Measured on 2 cores with every GET taking 5 s and 200
    // workflows: 40 slots (the SDK's default) gave 8 polls/s, 400 gave 16 and kept others at 93 ms
    // (docs/decisions/a-watch-is-one-activity.md).
    maxConcurrentWorkflowTaskExecutions: 400,
    // With fewer than workflow-task slots, tasks would wait for a local activity's slot while they hold their own.
    maxConcurrentLocalActivityExecutions: 400,
    // Sends: a gate lets 10 be unsettled at once, so 100 serve ten busy projects. And looks, each for as long as its GET
    // takes: 400 are 80 looks/s where every GET takes 5 s.
    maxConcurrentActivityTaskExecutions: 500,
    // Twice the SDK's default: a task is short apart from its GET, so slots fill as fast as tasks are fetched.
    maxConcurrentWorkflowTaskPolls: 20,
    maxConcurrentActivityTaskPolls: 10,
    // A follow-up that has left the cache is replayed at its next poll.
    maxCachedWorkflows: cachedWorkflows(2_000, FOLLOW_UP_MIB),
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
    // A gate's tasks are pure computation and done in milliseconds: the SDK's default is plenty.
    maxConcurrentWorkflowTaskExecutions: 40,
    maxConcurrentWorkflowTaskPolls: 10,
    // One gate a project, with up to half a megabyte of state each.
    maxCachedWorkflows: cachedWorkflows(200, BUDGET_MIB),
    // The gates of a worker that died are picked up by others after that long; asks wait for them meanwhile. The SDK's
    // default of 10 s is the whole deadline of an ask.
    stickyQueueScheduleToStartTimeout: 3_000,
    shutdownGraceTime: graceMs,
    shutdownForceTime: graceMs + FORCE_AFTER_GRACE_MS,
  };
}
