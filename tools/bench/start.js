/**
 * How long the installed command line takes, as a multiple of the time that Node itself takes to start. The runs are
 * interleaved, so that a machine that becomes slower is slower for all of them.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { readOptions, withStack } from './stack.js';

const USAGE = `npm run bench -- start [--rounds N]   runs of each command (20)`;
const rounds = Number(readOptions(USAGE, { rounds: { default: '20', pattern: /^[1-9]\d{0,3}$/ } }).rounds);

const FOLLOW_UP = 'follow-up/bench/stuck-1/start';
/** Commands that need no server, and those that ask it, with how many times as long as `node -e 0` each may take. */
const CASES = [
  ...[['--help'], ['--version'], ['send', '--help'], ['send', '--colour'], ['completion', 'bash']].map((args) => ({
    args,
    most: 2.5,
  })),
  ...[['list'], ['status', FOLLOW_UP], ['budget', 'show', 'bench']].map((args) => ({ args, most: 7 })),
];

/** Installs the package without its sources: in a checkout, the command first looks whether they have changed. */
function install(directory) {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const pack = ['pack', '--json', '--ignore-scripts', '--pack-destination', directory];
  const [{ filename }] = JSON.parse(execFileSync('npm', pack, { cwd: root, encoding: 'utf8' }));
  execFileSync('tar', ['-xf', filename], { cwd: directory });
  symlinkSync(join(root, 'node_modules'), join(directory, 'package', 'node_modules'));
  return join(directory, 'package', 'bin', 'follow-up.js');
}

async function timeOf(args, env) {
  const startedMs = performance.now();
  await once(spawn(process.execPath, args, { env, stdio: 'ignore' }), 'exit');
  return performance.now() - startedMs;
}

function medianOf(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

const directory = mkdtempSync(join(tmpdir(), 'bench-start-'));
try {
  const command = install(directory);
  await withStack({}, async ({ followUps, env }) => {
    const handle = await followUps.start({ projectId: 'bench', jobId: 'stuck-1', key: 'start', prompt: 'x' });
    // From then on, every answer is the same.
    while ((await handle.look()).summary.state !== 'polling') await delay(200);
    const all = [{ name: 'node -e 0', run: ['-e', '0'], most: 1 }];
    for (const { args, most } of CASES) all.push({ name: args.join(' '), run: [command, ...args], most });
    const times = all.map(() => []);
    for (let round = 0; round < rounds; round++) {
      for (const [index, { run }] of all.entries()) times[index].push(await timeOf(run, env));
    }
    console.log('| command | least, ms | median, ms | times node -e 0 | at most |\n| --- | --: | --: | --: | --: |');
    for (const [index, { name, most }] of all.entries()) {
      const median = medianOf(times[index]);
      const ratio = median / medianOf(times[0]);
      if (ratio > most) process.exitCode = 1;
      const cells = [name, Math.min(...times[index]).toFixed(0), median.toFixed(0), ratio.toFixed(2), most.toFixed(1)];
      console.log(`| ${cells.join(' | ')} |`);
    }
  });
} finally {
  rmSync(directory, { recursive: true });
}
