/**
 * The cost of follow-ups in flight for one worker and its server, beside the same number of bare workflows: the least
 * that Temporal needs to send a message and to wait for the end of a turn. Needs Linux, for `/proc`.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';
import { COMMAND, readOptions, startAll, TASK_QUEUE, withStack } from './stack.js';

const USAGE = `npm run bench -- size [options]
  --in-flight N@S,N@S   follow-ups, and seconds between two polls of each (100@5,1000@60)
  --minutes N           how long each is measured (3)`;

const values = readOptions(USAGE, {
  'in-flight': { default: '100@5,1000@60', pattern: /^([1-9]\d{0,5}@[1-9]\d{0,3},?)+$/ },
  minutes: { default: '3', pattern: /^[1-9]\d{0,3}$/ },
});
const pathOf = (name) => fileURLToPath(new URL(name, import.meta.url));
/** A worker that collects its garbage before it is measured, with the allocator's settings of the image. */
const measured = (...args) => ['--expose-gc', '--import', pathOf('collect-garbage.js'), ...args];
const ALLOCATOR = Object.fromEntries(
  [...readFileSync(pathOf('../../deploy/Dockerfile'), 'utf8').matchAll(/^ENV (MALLOC_\w+)=(\S+)$/gm)].map(
    ([, name, value]) => [name, value],
  ),
);
/** Sends per project and hour. It is more than a benchmark makes. */
const NO_LIMIT = 10_000;
/** One budget allows at most 10 sends under way. */
const PER_PROJECT = 100;
const GARBAGE_TAKES_MS = 3_000;
/** `/proc/PID/stat` counts in hundredths of a second on every Linux. */
const TICKS_PER_SECOND = 100;

/** CPU time in seconds of a process and its children, living and dead, since its start. */
function cpuSeconds(pid) {
  // The second field is the name, in parentheses, and may contain anything. Fields 14 to 17 are the user and system
  // time of the process and of its children that have ended.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean);
  return children.reduce((sum, child) => sum + cpuSeconds(child), ticks / TICKS_PER_SECOND);
}

async function residentMiB(worker) {
  worker.kill('SIGUSR2');
  await delay(GARBAGE_TAKES_MS);
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${worker.pid}/status`, 'utf8'))[1]) / 1_024;
}

// Not in the worker: the bundler would stay in its memory.
const directory = mkdtempSync(join(tmpdir(), 'bench-size-'));
process.on('exit', () => rmSync(directory, { recursive: true }));
const bundlePath = join(directory, 'bare-workflow.js');
const bundled = await bundleWorkflowCode({
  workflowsPath: pathOf('bare-workflow.js'),
  logger: new DefaultLogger('ERROR'),
});
writeFileSync(bundlePath, bundled.code);

const sides = {
  product: {
    args: measured(COMMAND, 'worker'),
    start: ({ followUps }, { intervalMs, ...input }) => {
      const poll = { initialInterval: intervalMs, maxInterval: intervalMs, backoffCoefficient: 1 };
      return followUps.start({ ...input, poll });
    },
  },
  bare: {
    args: measured(pathOf('bare-worker.js'), bundlePath),
    start: ({ client }, input) =>
      client.workflow.start('bareFollowUp', { workflowId: input.jobId, taskQueue: TASK_QUEUE, args: [input] }),
  },
};

async function measure({ args, start }, { count, intervalMs }) {
  const settings = { FOLLOW_UP_BUDGET_LIMIT: `${NO_LIMIT}`, ...ALLOCATOR };
  return withStack({ args, settings, service: { limiter: null } }, async (stack) => {
    const { server, simulator, client } = stack;
    const [worker] = stack.workers;
    const prompt = 'Please add a test for the empty list.';
    const projects = Math.ceil(count / PER_PROJECT);
    const inputOf = (jobId, index) => ({ projectId: `project-${index % projects}`, jobId, prompt, intervalMs });
    // Its code is loaded and compiled before anything is measured.
    const warm = await start(stack, { ...inputOf('job-0', 0), projectId: 'warm', intervalMs: 200 });
    await warm.result();
    const idleMiB = await residentMiB(worker);
    // Turns of these jobs never end.
    const inputs = Array.from({ length: count }, (_, index) => inputOf(`stuck-${index}`, index));
    const handles = await startAll(inputs, (input) => start(stack, input));
    while (simulator.ledger.length < count + 1) await delay(250);
    const eventsOf = async () => {
      const described = await startAll(handles, ({ workflowId }) => client.workflow.getHandle(workflowId).describe());
      return described.reduce((sum, { historyLength }) => sum + historyLength, 0) / count;
    };
    await delay(2 * GARBAGE_TAKES_MS);
    const events = await eventsOf();
    const sample = () => [performance.now() / 1_000, cpuSeconds(worker.pid), cpuSeconds(server.pid), simulator.gets];
    const before = sample();
    await delay(Number(values.minutes) * 60_000);
    const [seconds, workerS, serverS, polls] = sample().map((value, index) => value - before[index]);
    return {
      'polls a second': polls / seconds,
      'worker, % of a core': (100 * workerS) / seconds,
      'server, % of a core': (100 * serverS) / seconds,
      'worker, idle, MiB': idleMiB,
      'worker, over idle, MiB': (await residentMiB(worker)) - idleMiB,
      'events of each': events,
      'events of each for the polls': (await eventsOf()) - events,
    };
  });
}

for (const row of values['in-flight'].split(',')) {
  const [count, seconds] = row.split('@').map(Number);
  const measuredSides = {};
  for (const [name, side] of Object.entries(sides)) {
    measuredSides[name] = await measure(side, { count, intervalMs: seconds * 1_000 });
  }
  const { product, bare } = measuredSides;
  console.log(`${count} follow-ups, ${seconds} s between polls, for ${values.minutes} min`);
  const rounded = (number) => Number(number.toFixed(2));
  const rows = Object.entries(product).map(([what, value]) => [
    what,
    { product: rounded(value), bare: rounded(bare[what]), ratio: bare[what] > 0 ? rounded(value / bare[what]) : '-' },
  ]);
  console.table(Object.fromEntries(rows));
}
