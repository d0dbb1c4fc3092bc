import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';

/** Resolved by the package's name, because this code is in `dist`, `dist/cli` or, in tests, `src`. */
const manifestPath = createRequire(import.meta.url).resolve('agent-follow-up/package.json');

export const PACKAGE_ROOT = dirname(manifestPath);

export const PACKAGE_VERSION = (JSON.parse(readFileSync(manifestPath, 'utf8')) as { version: string }).version;
