import process from 'node:process';
import { clearInterval, setInterval } from 'node:timers';
import { fileURLToPath } from 'node:url';
import { createViteServer } from 'vitest/node';

/**
 * Loads a TypeScript module from its source, as the tests do. Close the result when nothing of the module runs:
 * until then the process stays alive, even if it only waits for a server that is down.
 *
 * @param {string} path from the root of the repository, with a slash before it
 */
export async function loadFromSource(path) {
  const vite = await createViteServer({
    root: fileURLToPath(new URL('../..', import.meta.url)),
    configFile: false,
    appType: 'custom',
    logLevel: 'error',
    server: { middlewareMode: true, hmr: false, ws: false, watch: null },
    optimizeDeps: { noDiscovery: true },
  });
  const alive = setInterval(() => undefined, 60_000);
  const close = async () => {
    clearInterval(alive);
    await vite.close();
  };
  try {
    return { module: await vite.ssrLoadModule(path), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Runs the `main` of a TypeScript module with the arguments of this process. `main` returns the exit code. */
export async function runFromSource(path) {
  const { module, close } = await loadFromSource(path);
  try {
    process.exitCode = await module.main(process.argv.slice(2));
  } finally {
    await close();
  }
}
