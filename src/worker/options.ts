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
import { PACKAGE_ROOT } from '../package.js';
import type { TemporalPlugin } from '../temporal/data-converter.js';

/** After the grace period: enough to report what was cut off. */
const FORCE_AFTER_GRACE_MS = 5_000;

/**
 * When a worker that shuts down gives up, in milliseconds. Running sends may take as long as the lease: if one were cut
 * short, nobody could tell whether its message was delivered.
 */
export function shutdownForceMs({ leaseMs }: Pick<WorkerConfig, 'leaseMs'>): number {
  return leaseMs + FORCE_AFTER_GRACE_MS;
}

/** Most budgets in the cache. One that is asked often should not be replayed. */
const CACHED_BUDGETS = 200;
/** Most memory of a budget's state as objects; as text it has up to half a megabyte. */
const BUDGET_MIB = 2;
/** Heap that the process needs besides. */
const OTHER_HEAP_MIB = 300;

/** Options of the two Temporal workers: of the one that runs follow-ups, batches and activities, and of the budgets'. */
export function workerOptions(config: WorkerConfig): Record<'followUps' | 'budgets', Partial<WorkerOptions>> {
  const { cachedWorkflows, workflowTasks, activities, watches, pollers } = config.capacity;
  const shared: Partial<WorkerOptions> = {
    // After this time, other workers take the workflows of a worker that died. By default it is 10 s.
    stickyQueueScheduleToStartTimeout: '3s',
    shutdownGraceTime: config.leaseMs,
    shutdownForceTime: shutdownForceMs(config),
    // Runs stay on the version that they began on. Budgets, batches and their parts move to the current one when they
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
      // With fewer of these than workflow-task slots, tasks would hold a slot while waiting for a local activity's slot.
      maxConcurrentLocalActivityExecutions: workflowTasks,
      // More slots than watches: a send never waits for one that sleeps.
      maxConcurrentActivityTaskExecutions: watches + activities,
      maxConcurrentWorkflowTaskPolls: Math.min(pollers, workflowTasks),
      maxConcurrentActivityTaskPolls: Math.min(Math.ceil(pollers / 2), activities),
      maxCachedWorkflows: cachedWorkflows,
      // A watch tells little more than news, which people see at once. By default, the SDK holds heartbeats back for up
      // to a minute.
      maxHeartbeatThrottleInterval: '1s',
      // Otherwise the SDK fails the workflow task of a payload that the server refuses, immediately and repeatedly. The
      // server itself ends the workflow.
      disablePayloadErrorLimit: true,
    },
    budgets: {
      ...shared,
      // A budget's tasks are pure computation and take milliseconds, so the SDK's default is enough.
      enableNonLocalActivities: false,
      maxConcurrentWorkflowTaskExecutions: 40,
      maxConcurrentWorkflowTaskPolls: 10,
      // As many as fit into the heap of this process.
      maxCachedWorkflows: Math.max(10, Math.min(CACHED_BUDGETS, Math.floor((heapMiB - OTHER_HEAP_MIB) / BUDGET_MIB))),
    },
  };
}

/**
 * How workflows are bundled. The build, the tests and the benchmark must all do it the same way.
 *
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
      // Names are relative to the package, so that the same sources give the same bundle in every directory.
      context,
      output: {
        ...config.output,
        devtoolModuleFilenameTemplate: ({ resourcePath }: { resourcePath: string }) =>
          resourcePath.replace(context, ''),
      },
      // The SDK requires an inline source map. Line numbers are enough for stack traces; columns and the text of the
      // sources would double the size of the bundle.
      devtool: 'inline-nosources-cheap-module-source-map',
    }),
  };
}

/**
 * The bundle of the build, or a new one if something else runs inside of workflows, which takes some seconds.
 *
 * @param bundlePath default: the one in `dist`
 */
export async function openBundle(
  bundlePath = join(PACKAGE_ROOT, 'dist', 'workflow-bundle.js'),
  plugins: TemporalPlugin[],
  workflowModules: string[] = [],
  dataConverter: DataConverter = {},
): Promise<WorkflowBundleOption> {
  const { payloadConverterPath, failureConverterPath } = dataConverter;
  const isBundled = plugins.some((plugin) => plugin.configureBundler !== undefined);
  const inWorkflows = [payloadConverterPath, failureConverterPath, ...workflowModules];
  if (!isBundled && inWorkflows.every((path) => path === undefined)) return { codePath: bundlePath };
  return bundleWorkflowCode({
    ...workflowBundleOptions(join(PACKAGE_ROOT, 'dist', 'workflows', 'index.js')),
    logger: Runtime.instance().logger,
    plugins,
    workflowInterceptorModules: workflowModules,
    ...(payloadConverterPath !== undefined && { payloadConverterPath }),
    ...(failureConverterPath !== undefined && { failureConverterPath }),
  });
}
