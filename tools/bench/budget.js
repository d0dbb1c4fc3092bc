/** The budget under load, with two real worker processes: whether it keeps its limit, and how much of it is used. */
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { maxInAnyWindow } from '../../dist/simulator/ledger.js';
import { readOptions, startAll, withStack } from './stack.js';

const USAGE = `npm run bench -- budget [--only backlog | thousand]
  backlog    3 projects with 200 waiting follow-ups each, 20 messages per 20 s: no window over 20, no message twice or
             refused, the order kept, and 98 % of the limit used; four minutes
  thousand   1,000 follow-ups of one project at once, 100 messages an hour: all get a place within 90 s, none fails, and the
             first 100 are sent 15 s after the last start, on two quiet cores`;

const PROJECTS = ['red', 'green', 'blue'];
const PER_PROJECT = 200;
/** Job of the message that starts a budget, so that it can be paused before the others come. */
const FIRST_JOB = 'first-0';
const LEAST_USED = 0.98;
const LONGEST_BURST_S = 15;
/** From the first start until all follow-ups have a place. */
const LONGEST_PLACING_S = 90;

const failures = [];
const expect = (holds, sentence) => void (holds || failures.push(sentence));

/** A stack whose service limits as the budget does. */
function withBudget({ limit, window: { ms, text } }, use) {
  const settings = { FOLLOW_UP_BUDGET_LIMIT: `${limit}`, FOLLOW_UP_BUDGET_WINDOW: text, FOLLOW_UP_MARGIN: '100ms' };
  const service = { limiter: { limit, windowMs: ms } };
  return withStack({ workers: 2, settings, service }, use);
}

const start = (followUps, inputs) =>
  startAll(inputs, (input) => followUps.start({ prompt: 'Add a test.', settleTime: '5s', ...input }));

/** What a project's messages say about its budget. */
function examine(ledger, projectId, { limit, windowMs }) {
  const messages = ledger.filter((entry) => entry.projectId === projectId && entry.jobId !== FIRST_JOB);
  const sent = messages.filter(({ accepted }) => accepted);
  const instants = sent.map(({ receivedAtMs }) => receivedAtMs);
  const most = maxInAnyWindow(instants, windowMs);
  expect(most <= limit, `${projectId}: ${most} in a window`);
  expect(sent.length === messages.length, `${projectId}: ${messages.length - sent.length} refused`);
  expect(new Set(sent.map(({ jobId }) => jobId)).size === sent.length, `${projectId}: a message came twice`);
  return { sent, instants };
}

async function backlog() {
  const [limit, windowMs] = [20, 20_000];
  return withBudget({ limit, window: { ms: windowMs, text: '20s' } }, async ({ simulator, followUps }) => {
    const budgets = PROJECTS.map((projectId) => followUps.budget(projectId));
    const first = await start(
      followUps,
      PROJECTS.map((projectId) => ({ projectId, jobId: FIRST_JOB })),
    );
    await Promise.all(first.map((handle) => handle.result()));
    await Promise.all(budgets.map((budget) => budget.pause()));
    const inputs = Array.from({ length: PROJECTS.length * PER_PROJECT }, (_, index) => ({
      projectId: PROJECTS[index % PROJECTS.length],
      jobId: `job-${index}`,
    }));
    const handles = await start(followUps, inputs);
    for (const budget of budgets) while ((await budget.status()).waitingTotal < PER_PROJECT) await delay(200);
    const places = new Map();
    for (const [index, { jobId }] of inputs.entries()) places.set(jobId, (await handles[index].progress()).position);
    for (const budget of budgets) {
      while ((await budget.status()).used > 0) await delay(200);
      await budget.resume();
    }
    const untilMs = performance.now() + 2 * (PER_PROJECT / limit) * windowMs;
    const all = PROJECTS.length * (PER_PROJECT + 1);
    while (simulator.ledger.length < all && performance.now() < untilMs) await delay(200);
    const used = PROJECTS.map((projectId) => {
      const { sent, instants } = examine(simulator.ledger, projectId, { limit, windowMs });
      expect(sent.length === PER_PROJECT, `${projectId}: ${sent.length} sent`);
      const inOrder = sent.map(({ jobId }) => jobId).sort((a, b) => places.get(a) - places.get(b));
      const displaced = Math.max(...sent.map(({ jobId }, index) => Math.abs(index - inOrder.indexOf(jobId))));
      expect(displaced < limit, `${projectId}: a message was sent ${displaced} places from its turn`);
      // The baseline: the shortest time that the limit allows for the messages after the first burst.
      const share = ((PER_PROJECT / limit - 1) * windowMs) / (instants.at(-1) - instants[0]);
      expect(share >= LEAST_USED, `${projectId}: ${share.toFixed(3)} of the limit used`);
      return [projectId, Number(share.toFixed(3))];
    });
    return { used: Object.fromEntries(used) };
  });
}

async function thousand() {
  const [limit, windowMs, projectId] = [100, 3_600_000, 'crowd'];
  return withBudget({ limit, window: { ms: windowMs, text: '1h' } }, async ({ simulator, client, followUps }) => {
    const inputs = Array.from({ length: 1_000 }, (_, index) => ({ projectId, jobId: `job-${index}` }));
    const beganAtMs = Date.now();
    await start(followUps, inputs);
    const startedAtMs = Date.now();
    const untilMs = beganAtMs + 2 * LONGEST_PLACING_S * 1_000;
    const status = () =>
      followUps
        .budget(projectId)
        .status()
        .catch(() => undefined);
    let placed = 0;
    let placedS = Infinity;
    while ((placed < inputs.length || simulator.ledger.length < limit) && Date.now() < untilMs) {
      await delay(500);
      const { waitingTotal = 0, lastSends = [] } = (await status()) ?? {};
      placed = waitingTotal + lastSends.length;
      if (placed >= inputs.length) placedS = Math.min(placedS, (Date.now() - beganAtMs) / 1_000);
    }
    const { instants } = examine(simulator.ledger, projectId, { limit, windowMs });
    const burstS = (instants[limit - 1] - startedAtMs) / 1_000;
    const failed = (await client.workflow.count(`ExecutionStatus IN ('Failed', 'Terminated', 'TimedOut')`)).count;
    expect(placed === inputs.length && placedS <= LONGEST_PLACING_S, `${placed} have a place after ${placedS} s`);
    expect(instants.length === limit, `${instants.length} sent`);
    expect(burstS <= LONGEST_BURST_S, `the first ${limit} were sent ${burstS} s after the last start`);
    expect(failed === 0, `${failed} failed`);
    return { placed, placedS, sent: instants.length, failed, burstS };
  });
}

const { only } = readOptions(USAGE, { only: { default: 'all', pattern: /^(backlog|thousand|all)$/ } });
for (const play of [backlog, thousand].filter(({ name }) => only === 'all' || only === name)) {
  failures.length = 0;
  const figures = JSON.stringify(await play());
  console.log(`${play.name}: ${failures.length === 0 ? 'holds' : `DOES NOT HOLD: ${failures.join('; ')}`}  ${figures}`);
  if (failures.length > 0) process.exitCode = 1;
}
