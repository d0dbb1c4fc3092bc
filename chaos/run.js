/** `npm run chaos`: loads main.ts, which like the tests runs from its source. */
import process from 'node:process';
import { clearInterval, setInterval } from 'node:timers';
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
// Scenarios wait for servers that are away, and such waits keep no process running by themselves.
const alive = setInterval(() => undefined, 60_000);
try {
  const { main } = await vite.ssrLoadModule('/chaos/main.ts');
  process.exitCode = await main(process.argv.slice(2));
} finally {
  clearInterval(alive);
  await vite.close();
}
