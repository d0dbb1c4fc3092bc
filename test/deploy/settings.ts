import { readdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { readRepositoryFile } from './compose-file.js';

const NAME = /\b(?:AGENT_JOBS|FOLLOW_UP|TEMPORAL)_(?:[A-Z]+_)*[A-Z]+\b/g;

/** The names of all settings that a worker reads, in its configuration and in Temporal's own library. */
export async function knownSettings(): Promise<Set<string>> {
  const folder = async (path: string, ending: string) => {
    const names = await readdir(fileURLToPath(new URL(`../../${path}`, import.meta.url)));
    return names.filter((name) => name.endsWith(ending)).map((name) => `${path}/${name}`);
  };
  const sources = [
    ...(await folder('src/config', '.ts')),
    ...(await folder('node_modules/@temporalio/envconfig/lib', '.js')),
  ];
  const texts = await Promise.all(sources.map(readRepositoryFile));
  return new Set(texts.flatMap((text) => text.match(NAME) ?? []));
}
