import { getHeapStatistics } from 'node:v8';
import type { WorkerDeploymentVersion } from '@temporalio/common';
import type { WorkerDeploymentOptions, WorkerOptions } from '@temporalio/worker';
import type { WorkerConfig } from '../config/index.js';

/** Time from the end of the grace period to giving up: enough to report what was cut off. */
const FORCE_AFTER_GRACE_MS = 5_000;

/**
 * How long running sends may take to finish when a worker is shut down, in milliseconds: the lease, as long as the server
 * lets them run. If a send were cut short, nobody could tell whether its message was delivered.
 */
export function shutdownGraceMs({ leaseMs }: Pick<WorkerConfig, 'leaseMs'>): number {
  return leaseMs;
}

/** After this time, other workers take the workflows of a worker that died. By default it is 10 s. */
const STICKY_MS = 3_000;

/**
 * Most budgets in the cache. Each has up to half a megabyte of state, and one that is asked often should not be
 * replayed.
 */
const CACHED_BUDGETS = 200;
/** Most memory of a budget's state as objects. */
const BUDGET_MIB = 2;
/** Heap that the process needs besides. */
const OTHER_HEAP_MIB = 300;

/** Options of the worker that runs follow-ups and their activities. */
export function followUpWorkerOptions(config: WorkerConfig): Omit<WorkerOptions, 'taskQueue'> {
  const graceMs = shutdownGraceMs(config);
  const { cachedWorkflows, workflowTasks, activities, watches, pollers } = config.capacity;
  return {
    maxConcurrentWorkflowTaskExecutions: workflowTasks,
    // With fewer of these than workflow-task slots, tasks would hold a slot while waiting for a local activity's slot.
    maxConcurrentLocalActivityExecutions: workflowTasks,
    // More slots than watches: a send never waits for one that sleeps.
    maxConcurrentActivityTaskExecutions: watches + activities,
    maxConcurrentWorkflowTaskPolls: Math.min(pollers, workflowTasks),
    maxConcurrentActivityTaskPolls: Math.min(Math.ceil(pollers / 2), activities),
    maxCachedWorkflows: cachedWorkflows,
    stickyQueueScheduleToStartTimeout: STICKY_MS,
    // A watch tells little more than news, which people see at once. By default, the SDK holds heartbeats back for up to
    // a minute.
    maxHeartbeatThrottleInterval: '1s',
    // Otherwise the SDK fails the workflow task of a payload that the server refuses, immediately and repeatedly. The
    // server itself ends the workflow.
    disablePayloadErrorLimit: true,
    shutdownGraceTime: graceMs,
    shutdownForceTime: graceMs + FORCE_AFTER_GRACE_MS,
  };
}

/** Options of the worker that runs the budgets. It runs only their local activities. */
export function budgetWorkerOptions(config: WorkerConfig): Omit<WorkerOptions, 'taskQueue'> {
  const graceMs = shutdownGraceMs(config);
  return {
    // A budget's tasks are pure computation and take milliseconds, so the SDK's default is enough.
    enableNonLocalActivities: false,
    maxConcurrentWorkflowTaskExecutions: 40,
    maxConcurrentWorkflowTaskPolls: 10,
    maxCachedWorkflows: cachedBudgets(),
    stickyQueueScheduleToStartTimeout: STICKY_MS,
    shutdownGraceTime: graceMs,
    shutdownForceTime: graceMs + FORCE_AFTER_GRACE_MS,
  };
}

/**
 * Runs of all workflows stay on the version that they began on. Budgets, batches and their parts move to the current one
 * when they continue as new.
 */
export function deploymentOptions(version: WorkerDeploymentVersion): WorkerDeploymentOptions {
  return { version, useWorkerVersioning: true, defaultVersioningBehavior: 'PINNED' };
}

/** As many as fit into the heap of this process. */
function cachedBudgets(): number {
  const heapMiB = getHeapStatistics().heap_size_limit / 1_048_576;
  return Math.max(10, Math.min(CACHED_BUDGETS, Math.floor((heapMiB - OTHER_HEAP_MIB) / BUDGET_MIB)));
}
