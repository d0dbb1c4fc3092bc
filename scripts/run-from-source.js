import process from 'node:process';
import { clearInterval, setInterval } from 'node:timers';
import { fileURLToPath } from 'node:url';
import { createViteServer } from 'vitest/node';

/**
 * Runs the `main` of a TypeScript module, which like the tests runs from its source, with the arguments of this process.
 * What it answers is the exit code.
 *
 * @param {string} path from the root of the repository, with a slash before it
 */
export async function runFromSource(path) {
  const vite = await createViteServer({
    root: fileURLToPath(new URL('..', import.meta.url)),
    configFile: false,
    appType: 'custom',
    logLevel: 'error',
    server: { middlewareMode: true, hmr: false, ws: false, watch: null },
    optimizeDeps: { noDiscovery: true },
  });
  // It may wait for servers that are away, and such waits keep no process running by themselves.
  const alive = setInterval(() => undefined, 60_000);
  try {
    const { main } = await vite.ssrLoadModule(path);
    process.exitCode = await main(process.argv.slice(2));
  } finally {
    clearInterval(alive);
    await vite.close();
  }
}
