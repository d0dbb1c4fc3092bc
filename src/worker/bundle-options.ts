import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { BundleOptions } from '@temporalio/worker';

/**
 * How workflows are bundled: the build, the tests and the benchmark must all do it alike.
 *
 * @param workflowsPath module that exports the workflows
 */
export function workflowBundleOptions(workflowsPath: string): BundleOptions {
  // Compiled or not, as this module.
  const extension = extname(fileURLToPath(import.meta.url));
  const context = fileURLToPath(new URL('../..', import.meta.url));
  return {
    workflowsPath,
    preloadModules: [fileURLToPath(new URL(`../workflows/shared-modules${extension}`, import.meta.url))],
    webpackConfigHook: (config) => ({
      ...config,
      // Names are relative to the package: the same sources give the same bundle in every directory.
      context,
      output: {
        ...config.output,
        devtoolModuleFilenameTemplate: ({ resourcePath }: { resourcePath: string }) =>
          resourcePath.replace(context, ''),
      },
      // The SDK insists on an inline source map. Lines of the sources are enough for stack traces; columns and the text
      // of the sources would double the size of the bundle.
      devtool: 'inline-nosources-cheap-module-source-map',
    }),
  };
}
