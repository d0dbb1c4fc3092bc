import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { BundleOptions } from '@temporalio/worker';

/**
 * How workflows are bundled: the build, a worker that runs from its sources and the benchmark must all do it alike.
 *
 * @param workflowsPath module that exports the workflows
 */
export function workflowBundleOptions(workflowsPath: string): BundleOptions {
  // Compiled or not, as this module.
  const extension = extname(fileURLToPath(import.meta.url));
  return {
    workflowsPath,
    preloadModules: [fileURLToPath(new URL(`../workflows/shared-modules${extension}`, import.meta.url))],
  };
}
