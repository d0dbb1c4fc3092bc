import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { createRandom } from '../../../dist/simulator/random.js';
import { parseFollowUpWorkflowId } from '../../../dist/contract/index.js';
import { endsOf, examine, Verdict } from './check.js';
import { startBudgetStack } from './stack.js';

const LIMIT = 20;
const WINDOW_MS = 20_000;
const PROJECTS = ['red', 'green', 'blue'];
const PER_PROJECT = 200;
/** A follow-up that the pause blocked shows `blocked` until it asks again. */
const WAITING = ['waiting-for-budget', 'blocked'];
/** Job of the message that starts a budget, so that it can be paused before the others come. */
const FIRST_JOB = 'first';

/**
 * Runs 3 projects of 200 follow-ups each, with a budget of 20 per 20 s, the smallest sensible margin and two workers.
 *
 * @param {object} options
 * @param {boolean} options.standing the budgets are paused until all 600 wait; otherwise they send from the first start
 * @param {number} options.terminatedShare share of the follow-ups that is terminated at random instants
 * @param {number} options.leastUtilisation lowest utilisation that a project may have
 */
export async function backlog({ env, seed, standing, terminatedShare, leastUtilisation }) {
  const verdict = new Verdict();
  const stack = await startBudgetStack({
    env,
    settings: {
      FOLLOW_UP_BUDGET_LIMIT: `${LIMIT}`,
      FOLLOW_UP_BUDGET_WINDOW: `${WINDOW_MS}ms`,
      FOLLOW_UP_MARGIN: '100ms',
    },
    simulator: { limiter: { kind: 'sliding', limit: LIMIT, windowMs: WINDOW_MS } },
  });
  try {
    const inputs = Array.from({ length: PROJECTS.length * PER_PROJECT }, (_, index) => ({
      projectId: PROJECTS[index % PROJECTS.length],
      jobId: `job-${index}`,
    }));
    if (standing) await pauseAll(stack);
    const handles = await stack.start(inputs);
    const places = await allPlaces(stack, handles, standing ? PER_PROJECT + 1 : PER_PROJECT);
    if (standing) await resumeAll(stack);
    const terminated = await terminateSome(stack, handles, terminatedShare, createRandom(seed));
    await untilSent(stack, handles.length - terminated);
    const ends = await endsOf(handles);
    const ledger = messagesOf(stack);
    const projects = PROJECTS.map((projectId) => examine({ ledger, projectId, limit: LIMIT, windowMs: WINDOW_MS }));
    for (const project of projects) {
      const { projectId, doubled, refused, mostInAnyWindow, utilisation } = project;
      verdict.expect(mostInAnyWindow <= LIMIT, `${projectId}: ${mostInAnyWindow} in a window`);
      verdict.expect(refused === 0, `${projectId}: ${refused} refused`);
      verdict.expect(doubled === 0, `${projectId}: ${doubled} doubled`);
      verdict.expect(
        utilisation >= leastUtilisation,
        `${projectId}: utilisation ${utilisation.toFixed(3)}, below ${leastUtilisation}`,
      );
    }
    const completed = ends['completed/sent'] ?? 0;
    verdict.expect(completed + terminated === handles.length, `ends ${JSON.stringify(ends)}, ${terminated} terminated`);
    const displacement = mostDisplaced(ledger, places);
    verdict.expect(displacement < LIMIT, `a message was sent ${displacement} places from its turn`);
    return { figures: { projects, ends, terminated, mostDisplaced: displacement }, failures: verdict.failures };
  } finally {
    await stack.stop();
  }
}

/** Starts each budget with a message of its own, so that it has the workers' settings, and pauses it. */
async function pauseAll({ start, followUps }) {
  const handles = await start(PROJECTS.map((projectId) => ({ projectId, jobId: FIRST_JOB })));
  await endsOf(handles);
  await Promise.all(PROJECTS.map((projectId) => followUps.budget(projectId).pause()));
}

/** Resumes each budget when that message no longer uses a slot. */
async function resumeAll({ followUps }) {
  await Promise.all(
    PROJECTS.map(async (projectId) => {
      const budget = followUps.budget(projectId);
      while ((await budget.status()).used > 0) await delay(200);
      await budget.resume();
    }),
  );
}

/**
 * Waits until `each` follow-ups of every project have a place or were sent. Returns by job which
 * message of its project it will be, of those that still wait.
 */
async function allPlaces(stack, handles, each) {
  const places = new Map();
  for (const projectId of PROJECTS) {
    for (;;) {
      const { waitingTotal, lastSends } = await stack.followUps.budget(projectId).status();
      if (waitingTotal + lastSends.length >= each) break;
      await delay(200);
    }
  }
  for (const handle of handles) {
    const { position } = await handle.progress();
    const { projectId, jobId } = parseFollowUpWorkflowId(handle.workflowId);
    const sent = messagesOf(stack).filter((entry) => entry.projectId === projectId).length;
    if (position > 0) places.set(jobId, sent + position);
  }
  return places;
}

/**
 * Waits until so many messages were sent, or for twice the time that this should take. Awaiting the results instead would
 * be 600 long polls, which the server ends after 20 s, a window, all at once.
 */
async function untilSent(stack, count) {
  const untilMs = performance.now() + 2 * (PER_PROJECT / LIMIT) * WINDOW_MS;
  while (messagesOf(stack).length < count && performance.now() < untilMs) await delay(200);
}

/** What the service has received of the projects' follow-ups, without the messages that started their budgets. */
function messagesOf({ simulator }) {
  return simulator.ledger.filter(({ projectId, jobId }) => PROJECTS.includes(projectId) && jobId !== FIRST_JOB);
}

/** Terminates a share of each project's follow-ups while they wait, at random instants. Returns how many. */
async function terminateSome(stack, handles, share, random) {
  const spanMs = (PER_PROJECT / LIMIT - 1) * WINDOW_MS;
  const inRandomOrder = (list) => list.map((each) => [random.next(), each]).sort(([a], [b]) => a - b);
  const counts = await Promise.all(
    PROJECTS.map(async (_projectId, project) => {
      const candidates = inRandomOrder(handles.filter((_handle, index) => index % PROJECTS.length === project));
      const instants = Array.from({ length: share * PER_PROJECT }, () => random.next() * spanMs * 0.8);
      const startedAtMs = performance.now();
      let terminated = 0;
      for (const atMs of instants.sort((a, b) => a - b)) {
        await delay(Math.max(0, startedAtMs + atMs - performance.now()));
        if (await terminateNextWaiting(stack, candidates)) terminated += 1;
      }
      return terminated;
    }),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

/** Terminates the first candidate that still waits. */
async function terminateNextWaiting({ client }, candidates) {
  for (let next = candidates.pop(); next; next = candidates.pop()) {
    const [, handle] = next;
    const progress = await handle.progress().catch(() => undefined);
    if (progress === undefined || !WAITING.includes(progress.state)) continue;
    await client.workflow.getHandle(handle.workflowId).terminate('at random');
    return true;
  }
  return false;
}

/** By how many places at most the order of the sends differs from the order, among those that waited. */
function mostDisplaced(ledger, places) {
  let most = 0;
  for (const projectId of PROJECTS) {
    const sent = ledger.filter((entry) => entry.projectId === projectId && places.has(entry.jobId));
    const inOrder = sent.map((entry) => entry.jobId).sort((a, b) => places.get(a) - places.get(b));
    for (const [index, { jobId }] of sent.entries()) most = Math.max(most, Math.abs(index - inOrder.indexOf(jobId)));
  }
  return most;
}
