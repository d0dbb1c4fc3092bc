/**
 * What a budget that does not answer costs other projects, with one worker: beside as many follow-ups that wait behind a
 * budget that answers.
 */
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { readOptions, startAll, withStack } from './stack.js';

const USAGE = `npm run bench -- isolation [--silent N]   follow-ups behind a silent budget (400); three minutes`;
const silent = Number(readOptions(USAGE, { silent: { default: '400', pattern: /^[1-9]\d{0,3}$/ } }).silent);

/** Started one after the other, so that they meet the silent budget at any time. */
const OTHERS = 80;
const OTHERS_EVERY_MS = 250;
const CANCELLED = 20;
const MOST_TIMES = 1.5;
const LONGEST_CANCEL_S = 10;
const PROMPT = { prompt: 'Add a test.', settleTime: '1s', poll: { initialInterval: '200ms', maxInterval: '500ms' } };

const percentile = (values, share) => [...values].sort((a, b) => a - b)[Math.ceil(share * values.length) - 1];

async function timeOf(work) {
  const startedMs = performance.now();
  await work();
  return (performance.now() - startedMs) / 1_000;
}

/** Seconds from start to end of each follow-up of a project. */
async function timesOf(followUps, projectId) {
  const runs = [];
  for (let index = 0; index < OTHERS; index++) {
    runs.push(
      timeOf(async () => {
        const handle = await followUps.start({ projectId, jobId: `job-${index}`, ...PROMPT });
        await handle.result();
      }),
    );
    await delay(OTHERS_EVERY_MS);
  }
  return Promise.all(runs);
}

/** Starts many that wait, and at once others, whose times count. Returns those that wait, too. */
async function besides(followUps, projectId) {
  const inputs = Array.from({ length: silent }, (_, index) => ({ projectId, jobId: `job-${index}`, ...PROMPT }));
  const starting = startAll(inputs, (input) => followUps.start(input));
  return { times: await timesOf(followUps, `beside-${projectId}`), waiting: await starting };
}

const cancel = (handle) =>
  timeOf(async () => {
    await handle.cancel();
    await handle.result().catch(() => undefined);
  });

const { alone, answering, beside, cancels } = await withStack({}, async ({ client, followUps }) => {
  await timesOf(followUps, 'warm-up');
  const alone = await timesOf(followUps, 'alone');
  await followUps.budget('answering').pause();
  const answering = await besides(followUps, 'answering');
  await Promise.all(answering.waiting.map(cancel));
  const settings = { limit: 100, windowMs: 3_600_000, reserve: 0, marginMs: 2_000 };
  await client.workflow.start('projectBudget', {
    workflowId: 'project-budget/silent',
    taskQueue: 'nobody',
    args: [{ projectId: 'silent', settings }],
  });
  const beside = await besides(followUps, 'silent');
  const cancels = await Promise.all(beside.waiting.slice(-CANCELLED).map(cancel));
  return { alone, answering: answering.times, beside: beside.times, cancels };
});

const p95 = (values) => percentile(values, 0.95);
const times = p95(beside) / p95(answering);
const longestCancel = Math.max(...cancels);
process.stdout.write(
  `p95 of start to end: ${p95(alone).toFixed(1)} s alone, ${p95(answering).toFixed(1)} s while ${silent} start that wait ` +
    `behind a budget that is paused, ${p95(beside).toFixed(1)} s while they start behind one that is silent ` +
    `(${times.toFixed(2)} times, at most ${MOST_TIMES})\n` +
    `longest of ${CANCELLED} cancels behind it: ${longestCancel.toFixed(1)} s (at most ${LONGEST_CANCEL_S} s)\n`,
);
if (times > MOST_TIMES || longestCancel > LONGEST_CANCEL_S) process.exitCode = 1;
