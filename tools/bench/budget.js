/**
 * The budget under load, on a Temporal development server with real worker processes: whether it keeps its limit, and
 * how much of it is used. See docs/explanation/benchmarks.md.
 */
import { parseArgs } from 'node:util';
import { processEnvironment } from '../../dist/config/settings-reader.js';
import { backlog } from './budget/backlog.js';
import { estimates } from './budget/estimates.js';
import { limiters } from './budget/limiters.js';
import { crowd } from './budget/crowd.js';

const SCENARIOS = {
  backlog: (options) => backlog({ ...options, standing: true, terminatedShare: 0, leastUtilisation: 0.98 }),
  terminated: (options) => backlog({ ...options, standing: true, terminatedShare: 0.2, leastUtilisation: 0.92 }),
  rush: (options) => backlog({ ...options, standing: false, terminatedShare: 0, leastUtilisation: 0.92 }),
  crowd: (options) => crowd({ ...options, count: 400 }),
  thousand: (options) => crowd({ ...options, count: 1_000 }),
  estimates,
  limiters,
};

const USAGE = `npm run bench -- budget [options]
  --only A,B    of ${Object.keys(SCENARIOS).join(', ')} (all)
  --seed N      seed of every random choice (1)`;

const { values } = parseArgs({ options: { only: { type: 'string' }, seed: { type: 'string', default: '1' } } });
const names = values.only?.split(',') ?? Object.keys(SCENARIOS);
if (names.some((name) => !(name in SCENARIOS)) || !/^\d+$/.test(values.seed)) {
  process.stderr.write(`${USAGE}\n`);
  process.exit(2);
}
for (const name of names) {
  const { figures, failures } = await SCENARIOS[name]({ env: processEnvironment(), seed: Number(values.seed) });
  process.stdout.write(`${name}: ${failures.length === 0 ? 'holds' : `DOES NOT HOLD: ${failures.join('; ')}`}\n`);
  process.stdout.write(`${JSON.stringify(figures, undefined, 2)}\n`);
  if (failures.length > 0) process.exitCode = 1;
}
