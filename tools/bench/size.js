/**
 * Measures the cost of follow-ups in flight for one worker of this project and its server. It fills the sizing table of
 * docs/how-to/run-in-production.md. Needs Linux, for `/proc`.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { processEnvironment } from '../../dist/config/settings-reader.js';
import { DATABASES } from './databases.js';
import { measureInFlight } from './measure.js';
import { bundleSide, startSide } from './side.js';

const USAGE = `npm run bench -- size [options]
  --in-flight N@S,N@S   follow-ups, and seconds between two polls of each (100@5,1000@60,10000@600)
  --minutes N           how long each is measured (5)
  --database NAME       sqlite (the development server) or postgres (a server with all roles on PostgreSQL) (sqlite)`;

function readOptions(args) {
  const { values } = parseArgs({
    args,
    options: {
      'in-flight': { type: 'string', default: '100@5,1000@60,10000@600' },
      minutes: { type: 'string', default: '5' },
      database: { type: 'string', default: 'sqlite' },
    },
  });
  const rows = values['in-flight'].split(',').map((given) => /^([1-9]\d{0,5})@([1-9]\d{0,4})$/.exec(given));
  if (!Object.hasOwn(DATABASES, values.database)) throw new Error('not understood');
  if (rows.includes(null) || !/^[1-9]\d{0,3}$/.test(values.minutes)) throw new Error('not understood');
  return rows.map(([, count, seconds]) => ({
    count: Number(count),
    intervalMs: Number(seconds) * 1_000,
    minutes: Number(values.minutes),
    database: values.database,
  }));
}

const COLUMNS = [
  ['in flight', ({ count }) => String(count)],
  ['polls a second', ({ looksPerSecond }) => looksPerSecond.toFixed(1)],
  ['worker, cores', ({ workerCores }) => workerCores.toFixed(2)],
  ['server, cores', ({ serverCores }) => serverCores.toFixed(2)],
  ['idle worker, MiB', ({ idleMiB }) => idleMiB.toFixed(0)],
  ['worker, MiB', ({ mibAtFirst }) => mibAtFirst.toFixed(0)],
  ['after the polls', ({ mibAtLast }) => mibAtLast.toFixed(0)],
  ['database, KiB each', ({ databaseKiBPerFollowUp }) => databaseKiBPerFollowUp.toFixed(1)],
];

async function main(rows) {
  const directory = await mkdtemp(join(tmpdir(), 'follow-up-bench-'));
  try {
    const bundlePath = await bundleSide('product', directory);
    console.log(`| ${COLUMNS.map(([title]) => title).join(' | ')} |`);
    console.log(`| ${COLUMNS.map(() => '--:').join(' | ')} |`);
    for (const row of rows) {
      const { running, stop } = await startSide({
        side: 'product',
        bundlePath,
        database: row.database,
        env: processEnvironment(),
      });
      try {
        const say = (line) => void process.stderr.write(`${line}\n`);
        const measured = await measureInFlight(running, row, say);
        console.log(`| ${COLUMNS.map(([, show]) => show(measured)).join(' | ')} |`);
      } finally {
        await stop();
      }
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

let rows;
try {
  rows = readOptions(process.argv.slice(2));
} catch {
  process.stderr.write(`${USAGE}\n`);
  process.exit(2);
}
await main(rows);
