/** `npm run chaos`: loads main.ts, which runs from its source, as the tests do. */
import { runFromSource } from '../scripts/run-from-source.js';

await runFromSource('/tools/chaos/main.ts');
