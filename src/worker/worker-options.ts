import { extname, join, sep } from 'node:path';
import { getHeapStatistics } from 'node:v8';
import type { DataConverter } from '@temporalio/common';
import {
  type BundleOptions,
  bundleWorkflowCode,
  Runtime,
  type WorkerOptions,
  type WorkflowBundleOption,
} from '@temporalio/worker';
import type { WorkerConfig } from '../config/index.js';
import { PACKAGE_ROOT } from '../node/package.js';
import type { TemporalPlugin } from '../temporal/data-converter.js';

/** After the grace period: enough to report interrupted activities. */
const FORCE_AFTER_GRACE_MS = 5_000;

/**
 * When a shutdown gives up, in milliseconds. Running sends may take as long as the lease: interrupting one would leave
 * its delivery unknown.
 */
export function shutdownForceMs({ leaseMs }: Pick<WorkerConfig, 'leaseMs'>): number {
  return leaseMs + FORCE_AFTER_GRACE_MS;
}

/** Most budgets in the cache, so that an active budget is not replayed. */
const CACHED_BUDGETS = 200;
/** Most memory of a budget's state. As text it has up to half a megabyte. */
const BUDGET_MIB = 2;
/** Heap for everything else. */
const OTHER_HEAP_MIB = 300;

/**
 * How long one activation of a workflow may take. The SDK's default is 5 s of real time, which a thread without a
 * processor reaches, and Node.js then ends the process: "async hook stack has become corrupted"
 * (https://github.com/nodejs/node/issues/38503). The SDK reads this option, but its types lack it.
 */
export const activationLimit = { isolateExecutionTimeout: '1 minute' };

/** Options of the two Temporal workers: one for follow-ups, batches and activities, and one for budgets. */
export function workerOptions(config: WorkerConfig): Record<'followUps' | 'budgets', Partial<WorkerOptions>> {
  const { cachedWorkflows, workflowTasks, activities, watches, pollers } = config.capacity;
  const shared: Partial<WorkerOptions> = {
    ...activationLimit,
    // After this time, other workers take over a dead worker's workflows. The default is 10 s.
    stickyQueueScheduleToStartTimeout: '3s',
    shutdownGraceTime: config.leaseMs,
    shutdownForceTime: shutdownForceMs(config),
    // Runs stay on the version that they started on. Budgets, batches and their parts move to the current one when they
    // continue as new.
    ...(config.version && {
      workerDeploymentOptions: {
        version: config.version,
        useWorkerVersioning: true,
        defaultVersioningBehavior: 'PINNED',
      },
    }),
  };
  const heapMiB = getHeapStatistics().heap_size_limit / 1_048_576;
  return {
    followUps: {
      ...shared,
      maxConcurrentWorkflowTaskExecutions: workflowTasks,
      // With fewer slots than for workflow tasks, tasks would wait for a local activity's slot.
      maxConcurrentLocalActivityExecutions: workflowTasks,
      // More slots than watches, so that a send never waits for a sleeping watch.
      maxConcurrentActivityTaskExecutions: watches + activities,
      maxConcurrentWorkflowTaskPolls: Math.min(pollers, workflowTasks),
      maxConcurrentActivityTaskPolls: Math.min(Math.ceil(pollers / 2), activities),
      maxCachedWorkflows: cachedWorkflows,
      // A watch's heartbeats are mostly news, which people see at once. By default, the SDK delays heartbeats by up to
      // a minute.
      maxHeartbeatThrottleInterval: '1s',
      // Otherwise the SDK fails the workflow task whose payload the server refuses, repeatedly. The server itself ends
      // the workflow.
      disablePayloadErrorLimit: true,
    },
    budgets: {
      ...shared,
      // A budget's tasks are pure computation of milliseconds, so the SDK's default is enough.
      enableNonLocalActivities: false,
      maxConcurrentWorkflowTaskExecutions: 40,
      maxConcurrentWorkflowTaskPolls: 10,
      maxCachedWorkflows: Math.max(10, Math.min(CACHED_BUDGETS, Math.floor((heapMiB - OTHER_HEAP_MIB) / BUDGET_MIB))),
    },
  };
}

/**
 * Options of the workflow bundle, for the build, the tests and the benchmark.
 *
 * @public
 * @param workflowsPath module that exports the workflows
 */
export function workflowBundleOptions(workflowsPath: string): BundleOptions {
  const extension = extname(workflowsPath);
  const context = `${PACKAGE_ROOT}${sep}`;
  return {
    workflowsPath,
    preloadModules: [join(context, extension === '.ts' ? 'src' : 'dist', 'workflows', `shared-modules${extension}`)],
    webpackConfigHook: (config) => ({
      ...config,
      // Names relative to the package make the bundle the same in every directory.
      context,
      output: {
        ...config.output,
        devtoolModuleFilenameTemplate: ({ resourcePath }: { resourcePath: string }) =>
          resourcePath.replace(context, ''),
      },
      // The SDK requires an inline source map. Line numbers are enough for stack traces; columns and sources would
      // double the size of the bundle.
      devtool: 'inline-nosources-cheap-module-source-map',
    }),
  };
}

/**
 * The build's bundle, or a new one, which takes some seconds, if other code runs inside workflows.
 *
 * @param bundlePath default: the one in `dist`
 */
export async function openBundle(
  bundlePath: string | undefined,
  plugins: TemporalPlugin[],
  workflowModules: string[] = [],
  dataConverter: DataConverter = {},
): Promise<WorkflowBundleOption> {
  const { payloadConverterPath, failureConverterPath } = dataConverter;
  const isBundled = plugins.some((plugin) => plugin.configureBundler !== undefined);
  const inWorkflows = [payloadConverterPath, failureConverterPath, ...workflowModules];
  if (!isBundled && inWorkflows.every((path) => path === undefined)) {
    return { codePath: bundlePath ?? join(PACKAGE_ROOT, 'dist', 'workflow-bundle.js') };
  }
  return bundleWorkflowCode({
    ...workflowBundleOptions(join(PACKAGE_ROOT, 'dist', 'workflows', 'index.js')),
    logger: Runtime.instance().logger,
    plugins,
    workflowInterceptorModules: workflowModules,
    ...(payloadConverterPath !== undefined && { payloadConverterPath }),
    ...(failureConverterPath !== undefined && { failureConverterPath }),
  });
}
