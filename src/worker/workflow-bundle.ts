import { extname, join, sep } from 'node:path';
import type { DataConverter } from '@temporalio/common';
import { type BundleOptions, bundleWorkflowCode, Runtime, type WorkflowBundleOption } from '@temporalio/worker';
import { PACKAGE_ROOT } from '../package.js';
import type { TemporalPlugin } from '../temporal/data-converter.js';

const BUNDLE_PATH = join(PACKAGE_ROOT, 'dist', 'workflow-bundle.js');

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

/** What runs inside of workflows besides the workflows themselves. */
interface BundleParts {
  /** Path of a bundle. @default the one that the build makes in `dist` */
  bundlePath?: string;
  plugins: readonly TemporalPlugin[];
  workflowModules?: string[] | undefined;
  dataConverter?: DataConverter | undefined;
}

/** The bundle of the build, or a new one if something else runs inside of workflows, which takes some seconds. */
export async function openBundle(parts: BundleParts): Promise<WorkflowBundleOption> {
  const { bundlePath = BUNDLE_PATH, plugins, workflowModules = [], dataConverter = {} } = parts;
  const { payloadConverterPath, failureConverterPath } = dataConverter;
  const isBundled = plugins.some((plugin) => plugin.configureBundler !== undefined);
  const inWorkflows = [payloadConverterPath, failureConverterPath, ...workflowModules];
  if (!isBundled && inWorkflows.every((path) => path === undefined)) return { codePath: bundlePath };
  return bundleWorkflowCode({
    ...workflowBundleOptions(join(PACKAGE_ROOT, 'dist', 'workflows', 'index.js')),
    logger: Runtime.instance().logger,
    plugins: [...plugins],
    workflowInterceptorModules: workflowModules,
    ...(payloadConverterPath !== undefined && { payloadConverterPath }),
    ...(failureConverterPath !== undefined && { failureConverterPath }),
  });
}
