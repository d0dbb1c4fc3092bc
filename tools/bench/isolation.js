/** What a budget that does not answer costs other projects, with one worker. */
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { readOptions, startAll, withStack } from './stack.js';

const USAGE = `npm run bench -- isolation [--silent N]   follow-ups behind a silent budget (400); three minutes`;
const silent = Number(readOptions(USAGE, { silent: { default: '400', pattern: /^[1-9]\d{0,3}$/ } }).silent);

/** Started one after the other, so that they meet the silent budget at any time. */
const OTHERS = 80;
const OTHERS_EVERY_MS = 250;
const CANCELLED = 20;
const MAX_TIMES = 1.5;
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

const cancel = (handle) =>
  timeOf(async () => {
    await handle.cancel();
    await handle.result().catch(() => undefined);
  });

const { alone, beside, cancels } = await withStack({}, async ({ client, followUps }) => {
  await timesOf(followUps, 'warm-up');
  const alone = await timesOf(followUps, 'alone');
  const settings = { limit: 100, windowMs: 3_600_000, reserve: 0, marginMs: 2_000 };
  await client.workflow.start('projectBudget', {
    workflowId: 'project-budget/silent',
    taskQueue: 'nobody',
    args: [{ projectId: 'silent', settings }],
  });
  const inputs = Array.from({ length: silent }, (_, index) => ({
    projectId: 'silent',
    jobId: `job-${index}`,
    ...PROMPT,
  }));
  const waiting = await startAll(inputs, (input) => followUps.start(input));
  // Until each has asked once, the measure would be the cost of so many starts.
  const isBlocked = async (handle) => (await handle.describe()).state === 'blocked';
  for (const handle of waiting) while (!(await isBlocked(handle))) await delay(OTHERS_EVERY_MS);
  const beside = await timesOf(followUps, 'beside');
  const cancels = await Promise.all(waiting.slice(-CANCELLED).map(cancel));
  return { alone, beside, cancels };
});

const p95 = (values) => percentile(values, 0.95);
const times = p95(beside) / p95(alone);
const longestCancel = Math.max(...cancels);
process.stdout.write(
  `p95 of start to end: ${p95(alone).toFixed(2)} s alone, ${p95(beside).toFixed(2)} s beside ${silent} behind a silent ` +
    `budget (${times.toFixed(2)} times, at most ${MAX_TIMES})\n` +
    `longest of ${CANCELLED} cancels behind it: ${longestCancel.toFixed(1)} s (at most ${LONGEST_CANCEL_S} s)\n`,
);
if (times > MAX_TIMES || longestCancel > LONGEST_CANCEL_S) process.exitCode = 1;
