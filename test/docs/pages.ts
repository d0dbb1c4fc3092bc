import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** The text of a file of the repository. */
export const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');

/** Paths of the files below a folder that end with `ending`. */
export function filesBelow(folder: string, ending: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending) && !name.includes('node_modules'))
    .map((name) => join(folder, name));
}

/** Every page of the documentation. The reports of the client's API are not written for readers. */
export const pages = [
  ...readdirSync(ROOT).filter((name) => name.endsWith('.md')),
  ...['.github', 'docs', 'deploy', 'examples', 'packages'].flatMap((folder) => filesBelow(folder, '.md')),
].filter((page) => !page.endsWith('.api.md'));
