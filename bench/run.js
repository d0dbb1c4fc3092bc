/**
 * Benchmark: follow-ups of this project's worker beside a naive workflow, on the same Temporal dev server, one after
 * the other. See docs/benchmarks.md. Needs Linux, for `/proc`.
 */
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { availableParallelism, cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { bundleWorkflowCode } from '@temporalio/worker';
import { processEnvironment } from '../dist/config/settings-reader.js';
import { createLogger, toTemporalLogger } from '../dist/logging.js';
import { workflowBundleOptions } from '../dist/worker/bundle-options.js';
import { measureRuns, measureSleeping } from './measure.js';
import { compare, toText } from './report.js';
import { EARLIEST_END_MS, MAX_CACHED_WORKFLOWS, PROJECTS, SHORTEST_WAIT_SHARE, SIDES } from './settings.js';
import { startSide } from './side.js';

const USAGE = `npm run bench -- [options]
  --follow-ups N    follow-ups per round and side, 1 to 2,000 (300)
  --polls N         get-job calls of each after the send (5)
  --interval-ms N   between two of them (2500); N polls must take more than 10 s
  --rounds N        each has both sides, in turns (2)
  --sleeping N      follow-ups asleep while memory is measured, 1 to 1,900 (900)
  --seed N          even: the naive side begins, odd: this project (0)
  --json            one JSON document on stdout instead of a table`;

function readOptions(args) {
  const number = (defaultValue) => ({ type: 'string', default: String(defaultValue) });
  const { values } = parseArgs({
    args,
    options: {
      'follow-ups': number(300),
      polls: number(5),
      'interval-ms': number(2_500),
      rounds: number(2),
      sleeping: number(900),
      seed: number(0),
      json: { type: 'boolean', default: false },
    },
  });
  const whole = (name, min, max) => {
    const value = Number(values[name]);
    if (Number.isInteger(value) && value >= min && value <= max) return value;
    throw new Error(`--${name}: must be a whole number from ${min} to ${max} (given ${values[name]})`);
  };
  const polls = whole('polls', 1, 100);
  const shortestMs = Math.floor(EARLIEST_END_MS / SHORTEST_WAIT_SHARE / polls) + 1;
  return {
    // More would bring the budgets' histories to where they continue as new, and their events would be missed.
    followUps: whole('follow-ups', 1, 2_000),
    polls,
    // Shorter, and the product would poll once more to confirm an end so soon after the send.
    intervalMs: whole('interval-ms', shortestMs, 3_600_000),
    rounds: whole('rounds', 1, 100),
    // Below what the workers cache, so that none is thrown out.
    sleeping: whole('sleeping', 1, MAX_CACHED_WORKFLOWS - 100),
    seed: whole('seed', 0, 2 ** 31),
    json: values.json,
  };
}

/**
 * Bundles each side's workflows, with the options that the product's worker bundles with and with none. It is done here:
 * a bundler would stay in the workers' memory.
 */
async function bundle(directory) {
  const log = createLogger({ level: 'warn', format: 'json' });
  const logger = toTemporalLogger(() => log);
  const options = { naive: (workflowsPath) => ({ workflowsPath }), product: workflowBundleOptions };
  const paths = {};
  for (const side of SIDES) {
    const workflowsPath = fileURLToPath(new URL(`./${side}-workflows.js`, import.meta.url));
    const { code } = await bundleWorkflowCode({ ...options[side](workflowsPath), logger });
    paths[side] = join(directory, `${side}.js`);
    await writeFile(paths[side], code);
  }
  return paths;
}

/** Both measurements of one side, each with a server, a service and a worker of its own. */
async function runSide(side, bundlePath, options) {
  const results = {};
  for (const measure of [measureRuns, measureSleeping]) {
    const { running, stop } = await startSide({
      side,
      bundlePath,
      readsPerTurn: options.polls,
      env: processEnvironment(),
    });
    try {
      results.temporal ??= await running.serverVersion();
      Object.assign(results, await measure(running, options));
    } finally {
      await stop();
    }
  }
  return {
    ...results,
    allEventsPerFollowUp: results.eventsPerFollowUp + results.gateEventsPerFollowUp,
    allCpuMsPerFollowUp: results.workerCpuMsPerFollowUp + results.serverCpuMsPerFollowUp,
  };
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
  const rounds = { product: [], naive: [] };
  try {
    const bundles = await bundle(directory);
    for (let round = 1; round <= options.rounds; round++) {
      const order = (round + options.seed) % 2 === 1 ? SIDES : [...SIDES].reverse();
      for (const side of order) {
        say(`round ${round} of ${options.rounds}: ${side}`);
        const result = await runSide(side, bundles[side], options);
        say(JSON.stringify(result));
        rounds[side].push(result);
      }
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
  const machine = {
    cpus: `${availableParallelism()} x ${cpus()[0]?.model ?? 'unknown'}`,
    node: process.version,
    temporal: rounds.naive[0].temporal,
    loadBefore,
    loadAfter: load(),
  };
  const rows = compare(rounds);
  if (options.json) {
    console.log(JSON.stringify({ at: new Date().toISOString(), machine, options, projects: PROJECTS, rows, rounds }));
    return;
  }
  const { followUps, polls, intervalMs, sleeping } = options;
  console.log(
    [
      `${followUps} follow-ups of ${PROJECTS} projects at once, ${polls} polls ${intervalMs} ms apart; ${sleeping} asleep; ` +
        `rounds: ${options.rounds}`,
      `${machine.cpus}; Node ${machine.node}; Temporal ${machine.temporal} on a SQLite file; ` +
        `load ${loadBefore} before, ${machine.loadAfter} after`,
      '',
      toText(rows),
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
