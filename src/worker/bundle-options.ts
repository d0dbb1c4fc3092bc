import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { BundleOptions } from '@temporalio/worker';

/**
 * How workflows are bundled. The build, the tests and the benchmark must all do it the same way.
 *
 * @param workflowsPath module that exports the workflows
 */
export function workflowBundleOptions(workflowsPath: string): BundleOptions {
  // `.js` if this module is compiled, otherwise `.ts`.
  const extension = extname(fileURLToPath(import.meta.url));
  const context = fileURLToPath(new URL('../..', import.meta.url));
  return {
    workflowsPath,
    preloadModules: [fileURLToPath(new URL(`../workflows/shared-modules${extension}`, import.meta.url))],
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
