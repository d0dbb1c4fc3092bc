import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';

/**
 * By the package's name: this code is in `dist`, in the bundled command line in `dist/cli`, and, in tests, in `src`.
 */
const manifestPath = createRequire(import.meta.url).resolve('agent-follow-up/package.json');

/** Directory of this package. */
export const PACKAGE_ROOT = dirname(manifestPath);

/** Version of this package. */
export const PACKAGE_VERSION = (JSON.parse(readFileSync(manifestPath, 'utf8')) as { version: string }).version;
