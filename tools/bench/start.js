/**
 * How long the command line takes, as a multiple of the time that Node itself takes to start. The runs are interleaved,
 * so that a machine that becomes slower is slower for all of them. See docs/explanation/benchmarks.md.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { processEnvironment } from '../../dist/config/settings-reader.js';
import { startDevServer } from '../../dist/dev-server/index.js';
import { startSimulator } from '../../dist/simulator/index.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const directory = mkdtempSync(join(tmpdir(), 'bench-start-'));
const COMMAND = install();
const FOLLOW_UP = 'follow-up/bench/stuck-1/start';

/** The commands, each with how many times as long as `node -e 0` it may take. */
const CASES = [
  { name: 'node -e 0', args: ['-e', '0'], most: 1 },
  ...[
    { name: '--help', args: ['--help'], most: 2.5 },
    { name: '--version', args: ['--version'], most: 2.5 },
    { name: 'send --help', args: ['send', '--help'], most: 2.5 },
    { name: 'send --colour (no such option)', args: ['send', '--colour'], most: 2.5 },
    { name: 'completion bash', args: ['completion', 'bash'], most: 2.5 },
    { name: 'list', args: ['list'], most: 7 },
    { name: 'status', args: ['status', FOLLOW_UP], most: 7 },
    { name: 'budget show', args: ['budget', 'show', 'bench'], most: 7 },
  ].map(({ args, ...each }) => ({ ...each, args: [COMMAND, ...args] })),
];

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '20' } } });
if (!/^[1-9]\d*$/.test(values.rounds)) {
  process.stderr.write('npm run bench -- start [--rounds N]   runs of each command (20)\n');
  process.exit(2);
}

const server = await startDevServer({ env: processEnvironment() });
const simulator = await startSimulator({ autoCreate: true });
const env = {
  ...processEnvironment(),
  TEMPORAL_ADDRESS: server.address,
  AGENT_JOBS_BASE_URL: simulator.baseUrl,
  AGENT_JOBS_API_KEY: simulator.apiKey,
  FOLLOW_UP_STATUS_ADDRESS: 'off',
  FOLLOW_UP_LOG_LEVEL: 'error',
};
const worker = spawn(process.execPath, [COMMAND, 'worker'], { env, stdio: ['ignore', 'pipe', 'inherit'] });
try {
  await once(worker.stdout, 'data');
  await runOnce([COMMAND, 'send', 'bench', 'stuck-1', '--prompt', 'x', '--key', 'start', '--no-wait']);
  await untilSent();
  const times = new Map(CASES.map(({ name }) => [name, []]));
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const { name, args } of CASES) times.get(name).push((await runOnce(args)).elapsedMs);
  }
  report(times);
} finally {
  worker.kill('SIGTERM');
  await Promise.all([worker.exitCode ?? once(worker, 'exit'), simulator.close()]);
  await server.stop();
  rmSync(directory, { recursive: true });
}

/** Installs the package without its sources: in a checkout, the command first looks whether they have changed. */
function install() {
  const pack = ['pack', '--json', '--ignore-scripts', '--pack-destination', directory];
  const [{ filename }] = JSON.parse(execFileSync('npm', pack, { cwd: ROOT, encoding: 'utf8' }));
  execFileSync('tar', ['-xf', filename], { cwd: directory });
  symlinkSync(join(ROOT, 'node_modules'), join(directory, 'package', 'node_modules'));
  return join(directory, 'package', 'bin', 'follow-up.js');
}

async function runOnce(args) {
  const startedMs = performance.now();
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'ignore'] });
  let stdout = '';
  child.stdout.on('data', (chunk) => (stdout += chunk));
  await once(child, 'exit');
  return { elapsedMs: performance.now() - startedMs, stdout };
}

/** Waits until the follow-up is listed as sent: from then on every answer is the same. */
async function untilSent() {
  for (let look = 0; look < 60; look++) {
    const { stdout } = await runOnce([COMMAND, 'list', '--state', 'polling']);
    if (stdout.includes(FOLLOW_UP)) return;
  }
  throw new Error('the follow-up was not sent');
}

function report(times) {
  const base = medianOf(times.get('node -e 0'));
  const rows = CASES.map(({ name, most }) => {
    const all = times.get(name);
    const ratio = medianOf(all) / base;
    if (ratio > most) process.exitCode = 1;
    return [name, Math.min(...all).toFixed(0), medianOf(all).toFixed(0), ratio.toFixed(2), most.toFixed(1)];
  });
  const heads = ['command', 'least, ms', 'median, ms', 'times node -e 0', 'at most'];
  const lines = [heads, heads.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`);
  process.stdout.write(`${lines.join('\n')}\n`);
}

function medianOf(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
