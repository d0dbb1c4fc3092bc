import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { createViteServer } from 'vitest/node';
import { runSeed } from './seed.js';

/** A rule that can be taken out: a profile that shows it, a file of src, a text that occurs once, and another. */
type Break = readonly [profile: string, file: string, text: string, instead: string];

/** Rules whose absence the simulation notices. */
export const breaks = JSON.parse(readFileSync(new URL('breaks.json', import.meta.url), 'utf8')) as Record<
  string,
  Break
>;

const MOST_SEEDS = 500;

/** Says in which seed the simulation notices that a rule is missing; `undefined` if it does not. */
export async function findBreak(name: string): Promise<string | undefined> {
  const [profile, file, text, instead] = breaks[name] ?? [];
  if (profile === undefined || text === undefined) throw new Error(`no break is called ${name}`);
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const path = `${root}src/${file}.ts`;
  const parts = readFileSync(path, 'utf8').split(text);
  if (parts.length !== 2) throw new Error(`${name}: occurs ${parts.length - 1} times in ${file}, not once: ${text}`);
  const transform = (_: string, id: string) => (id === path ? parts.join(instead) : undefined);
  const vite = await createViteServer({
    ...{ root, configFile: false, appType: 'custom', logLevel: 'silent', optimizeDeps: { noDiscovery: true } },
    server: { middlewareMode: true, hmr: false, ws: false, watch: null },
    plugins: [{ name, enforce: 'pre', transform }],
  });
  try {
    const broken = (await vite.ssrLoadModule('/tools/simulation/seed.ts')) as { runSeed: typeof runSeed };
    for (let seed = 1; seed <= MOST_SEEDS; seed++) {
      const [wrong] = (await broken.runSeed(profile, seed)).found;
      // A seed that is wrong anyway shows nothing.
      const isRight = !wrong || (await runSeed(profile, seed)).found.length === 0;
      if (wrong && isRight) return `${wrong.verdict} in seed ${seed} of ${profile}: ${wrong.what}`;
    }
    return undefined;
  } finally {
    await vite.close();
  }
}
