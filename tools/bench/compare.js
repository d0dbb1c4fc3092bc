/**
 * Benchmark: compares follow-ups of this project's worker with those of a naive and of a bare workflow. The sides run one
 * after the other, each with a Temporal server of its own. See docs/explanation/benchmarks.md. Needs Linux, for `/proc`.
 */
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { processEnvironment } from '../../dist/config/settings-reader.js';
import { DATABASES } from './databases.js';
import { measureBesideSlowReads, measureRuns, measureSleeping } from './measure.js';
import { compare, toText } from './report.js';
import { PROJECTS, RUNS, SIDES } from './settings.js';
import { bundleSide, startSide } from './side.js';

const USAGE = `npm run bench -- compare [options]
  --only NAME       5 looks, 30 looks, slow reads or asleep (all)
  --rounds N        each has all sides, in turns (2)
  --sleeping N,N    follow-ups asleep while memory is measured (1000)
  --side SIDE       naive, bare or product (all)
  --database NAME   sqlite (the development server) or postgres (a server with all roles on PostgreSQL) (sqlite)
  --seed N          even: the naive side begins, odd: this project (0)
  --json            one JSON document on stdout instead of a table`;

const ASLEEP = 'asleep';
const BESIDE_SLOW_READS = 'slow reads';

function readOptions(args) {
  const text = (defaultValue) => ({ type: 'string', default: defaultValue });
  const { values } = parseArgs({
    args,
    options: {
      only: { type: 'string' },
      rounds: text('2'),
      sleeping: text('1000'),
      side: { type: 'string' },
      database: text('sqlite'),
      seed: text('0'),
      json: { type: 'boolean', default: false },
    },
  });
  const whole = (name, given, min, max) => {
    const value = Number(given);
    if (Number.isInteger(value) && value >= min && value <= max) return value;
    throw new Error(`--${name}: must be a whole number from ${min} to ${max} (given ${given})`);
  };
  const oneOf = (name, all) => {
    const given = values[name];
    if (given === undefined) return all;
    if (all.includes(given)) return [given];
    throw new Error(`--${name}: must be one of ${all.join(', ')} (given ${given})`);
  };
  return {
    only: oneOf('only', [...RUNS.map(({ name }) => name), BESIDE_SLOW_READS, ASLEEP]),
    sides: oneOf('side', SIDES),
    database: oneOf('database', Object.keys(DATABASES))[0],
    rounds: whole('rounds', values.rounds, 1, 100),
    sleeping: values.sleeping.split(',').map((count) => whole('sleeping', count, 1, 100_000)),
    seed: whole('seed', values.seed, 0, 2 ** 31),
    json: values.json,
  };
}

/** All measurements of one side, each with a server, a service and a worker of its own. */
async function runSide(side, bundlePath, { only, sleeping, database }) {
  const measures = [
    ...RUNS.map((run) => [run.name, (running) => measureRuns(running, run)]),
    [BESIDE_SLOW_READS, measureBesideSlowReads],
    [ASLEEP, (running) => measureSleeping(running, sleeping)],
  ].filter(([name]) => only.includes(name));
  const results = {};
  for (const [name, measure] of measures) {
    const { running, stop } = await startSide({ side, bundlePath, database, env: processEnvironment() });
    try {
      results.temporal ??= await running.serverVersion();
      results[name] = await measure(running);
      say(`${side}, ${name}: ${JSON.stringify(results[name])}`);
    } finally {
      await stop();
    }
  }
  return results;
}

function say(line) {
  process.stderr.write(`${line}\n`);
}

function load() {
  return readFileSync('/proc/loadavg', 'utf8').split(' ').slice(0, 3).join(' ');
}

async function main() {
  const options = readOptions(process.argv.slice(2));
  const loadBefore = load();
  const directory = await mkdtemp(join(tmpdir(), 'follow-up-bench-'));
  const rounds = { product: [], naive: [], bare: [] };
  try {
    const bundles = {};
    for (const side of options.sides) bundles[side] = await bundleSide(side, directory);
    for (let round = 1; round <= options.rounds; round++) {
      const order = (round + options.seed) % 2 === 1 ? SIDES : [...SIDES].reverse();
      for (const side of order.filter((each) => options.sides.includes(each))) {
        say(`round ${round} of ${options.rounds}: ${side}`);
        rounds[side].push(await runSide(side, bundles[side], options));
      }
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
  const machine = {
    cpus: `${availableParallelism()} x ${cpus()[0]?.model ?? 'unknown'}`,
    node: process.version,
    temporal: Object.values(rounds).flat()[0].temporal,
    loadBefore,
    loadAfter: load(),
  };
  const tables = options.only.map((name) => ({ name, rows: compare(rounds, name) }));
  if (options.json) {
    console.log(JSON.stringify({ at: new Date().toISOString(), machine, options, runs: RUNS, tables, rounds }));
    return;
  }
  const aboutRuns = RUNS.map((run) => `${run.name}: ${run.followUps} follow-ups at once, ${run.intervalMs} ms apart`);
  console.log(
    [
      `${PROJECTS} projects; rounds: ${options.rounds}; ${aboutRuns.join('; ')}`,
      `${machine.cpus}; Node ${machine.node}; Temporal ${machine.temporal} on ${options.database}; ` +
        `load ${loadBefore} before, ${machine.loadAfter} after`,
      ...tables.flatMap(({ name, rows }) => ['', name, toText(rows)]),
    ].join('\n'),
  );
}

try {
  await main();
} catch (error) {
  say(error instanceof Error ? error.message : String(error));
  if (error?.code?.startsWith?.('ERR_PARSE_ARGS') || error?.message?.startsWith('--')) say(USAGE);
  process.exitCode = 1;
}
