/**
 * Makes the package's `dist` from the repository's: CommonJS, which every caller can load, and the type declarations that
 * the two entries need. `npm pack` and `npm publish` run it.
 */
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { dirname, join, relative } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const root = fileURLToPath(new URL('../..', import.meta.url));
const built = join(root, 'dist');
const dist = fileURLToPath(new URL('dist', import.meta.url));
const entries = ['client/index', 'contract/index'];

async function bundle() {
  const bundled = await rolldown({
    cwd: root,
    input: Object.fromEntries(entries.map((entry) => [entry, join(built, `${entry}.js`)])),
    platform: 'node',
    tsconfig: false,
    external: /^[^./]/,
    // A package that only the worker uses must not stay as a bare `require`: callers may not have it.
    treeshake: { moduleSideEffects: (_id, isExternal) => !isExternal },
  });
  await bundled.write({ dir: dist, format: 'cjs', entryFileNames: '[name].js', chunkFileNames: 'shared-[hash].js' });
}

/** Copies the declarations of the entries, and those that they import. */
function copyDeclarations() {
  const names = new Set(entries.map((entry) => `${entry}.d.ts`));
  for (const name of names) {
    const text = fs.readFileSync(join(built, name), 'utf8');
    fs.mkdirSync(dirname(join(dist, name)), { recursive: true });
    fs.writeFileSync(join(dist, name), text);
    for (const [, path] of text.matchAll(/(?:from|import\()\s*'(\.[^']+)\.js'/g)) {
      names.add(relative(built, join(dirname(join(built, name)), `${path}.d.ts`)));
    }
  }
}

execFileSync(process.execPath, [join(root, 'bin', 'build.js')], { stdio: ['ignore', 2, 2] });
fs.rmSync(dist, { recursive: true, force: true });
await bundle();
copyDeclarations();
