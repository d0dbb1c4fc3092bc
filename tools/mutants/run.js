/** `npm run mutants`: loads main.ts, which runs from its source, as the tests do. */
import { runFromSource } from '../scripts/run-from-source.js';

await runFromSource('/tools/mutants/main.ts');
