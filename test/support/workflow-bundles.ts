import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { bundleWorkflowCode } from '@temporalio/worker';
import { workflowBundleOptions } from '../../src/worker/options.js';
import { createLogger, toTemporalLogger } from '../../src/logging.js';

const ROOT = join(import.meta.dirname, '..', '..');

/** The bundle that runs in production, made by the build. */
export const builtBundle = { codePath: join(ROOT, 'dist', 'workflow-bundle.js') };

/**
 * Bundles workflows that only tests have, or takes the bundle of an earlier run from the cache. The key is a hash of
 * all sources: those of the product, the files beside the workflows, and the versions of the packages.
 *
 * @param workflowsPath module that exports the workflows
 */
export async function bundleTestWorkflows(workflowsPath: string): Promise<{ code: string }> {
  const hash = createHash('sha256').update(workflowsPath);
  const directories = [join(ROOT, 'src'), dirname(workflowsPath)];
  const sources = await Promise.all(directories.map((directory) => filesIn(directory)));
  for (const path of [join(ROOT, 'package-lock.json'), ...sources.flat().sort()]) {
    hash.update(`${path}\n`).update(await readFile(path));
  }
  const cache = join(ROOT, '.cache', 'test-bundles');
  const path = join(cache, `${hash.digest('hex').slice(0, 32)}.js`);
  const kept = await readFile(path, 'utf8').catch(() => undefined);
  if (kept !== undefined) return { code: kept };
  const logger = toTemporalLogger(() => createLogger({ level: 'error', format: 'json' }));
  const { code } = await bundleWorkflowCode({ ...workflowBundleOptions(workflowsPath), logger });
  await mkdir(cache, { recursive: true });
  const written = `${path}.${randomUUID()}`;
  await writeFile(written, code);
  await rename(written, path);
  return { code };
}

async function filesIn(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}
