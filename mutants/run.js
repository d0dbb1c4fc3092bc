/** `npm run mutants`: loads main.ts, which like the tests runs from its source. */
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { createViteServer } from 'vitest/node';

const vite = await createViteServer({
  root: fileURLToPath(new URL('..', import.meta.url)),
  configFile: false,
  appType: 'custom',
  logLevel: 'error',
  server: { middlewareMode: true, hmr: false, ws: false, watch: null },
  optimizeDeps: { noDiscovery: true },
});
try {
  const { main } = await vite.ssrLoadModule('/mutants/main.ts');
  process.exitCode = await main(process.argv.slice(2));
} finally {
  await vite.close();
}
