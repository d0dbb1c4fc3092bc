import { extname, join, sep } from 'node:path';
import type { BundleOptions } from '@temporalio/worker';
import { PACKAGE_ROOT } from '../package.js';

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
