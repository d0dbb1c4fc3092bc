/**
 * Prints the bill of materials of the package, without what only its development needs:
 *
 *   node tools/scripts/sbom.js cyclonedx | spdx
 *
 * `npm sbom --omit dev` does not help: it also omits what the package and its development both depend on.
 */
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (name) => JSON.parse(fs.readFileSync(join(root, name), 'utf8'));
// An override may refer to a development dependency.
const forUsers = ({ devDependencies: _dev, overrides: _overrides, ...rest }) => rest;

const [format] = process.argv.slice(2);
const directory = fs.mkdtempSync(join(tmpdir(), 'sbom-'));
try {
  const lock = read('package-lock.json');
  const installed = Object.entries(lock.packages).filter(([path, { dev }]) => path !== '' && !dev);
  lock.packages = { '': forUsers(lock.packages['']), ...Object.fromEntries(installed) };
  fs.writeFileSync(join(directory, 'package.json'), JSON.stringify(forUsers(read('package.json'))));
  fs.writeFileSync(join(directory, 'package-lock.json'), JSON.stringify(lock));
  const args = ['sbom', '--package-lock-only', '--sbom-format', format];
  execFileSync('npm', args, { cwd: directory, stdio: ['ignore', 'inherit', 'inherit'] });
} finally {
  fs.rmSync(directory, { recursive: true, force: true });
}
