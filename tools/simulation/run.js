/** Loads main.ts, which like the tests runs from its source. */
import { runFromSource } from '../scripts/run-from-source.js';

await runFromSource('/tools/simulation/main.ts');
