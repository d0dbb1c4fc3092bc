import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode } from '@temporalio/worker';
import type { WorkerOptions } from '@temporalio/worker';
import type { Logger } from 'pino';
import { toTemporalLogger } from '../logging.js';
import { workflowBundleOptions } from './bundle-options.js';

/** Workflow code: a bundle that was built before, or a module to bundle now. */
export type WorkflowCode = { bundlePath: string } | { workflowsPath: string };

type WorkflowBundle = NonNullable<WorkerOptions['workflowBundle']>;

/**
 * The workflows as a bundle that both workers take. Without `code` it is the one beside the compiled worker; where the
 * worker runs from its sources, the workflows' sources are bundled.
 */
export async function loadWorkflowBundle(logger: Logger, code: WorkflowCode = builtIn()): Promise<WorkflowBundle> {
  if ('bundlePath' in code) return { codePath: code.bundlePath };
  return bundleWorkflowCode({
    ...workflowBundleOptions(code.workflowsPath),
    logger: toTemporalLogger(() => logger.child({}, { level: 'warn' })),
  });
}

function builtIn(): WorkflowCode {
  const bundlePath = fileURLToPath(new URL('../workflow-bundle.js', import.meta.url));
  if (existsSync(bundlePath)) return { bundlePath };
  return { workflowsPath: fileURLToPath(new URL('../workflows/index.ts', import.meta.url)) };
}
