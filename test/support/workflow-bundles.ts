import { join } from 'node:path';

/** The bundle that runs in production, made by the build. */
export const builtBundle = { codePath: join(import.meta.dirname, '..', '..', 'dist', 'workflow-bundle.js') };
