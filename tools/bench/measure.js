import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { SLOW_READ_MS } from './settings.js';

const BESIDE_SLOW = { slow: 300, unrelated: 100 };
const HOUR_MS = 3_600_000;
const LOOK_AGAIN_MS = 250;
/** Longest wait until every follow-up sleeps. */
const SLEEP_LIMIT_MS = 3_600_000;

/** Measures follow-ups from start to end: rate, history, CPU time, reads. `running` is one side, warmed up. */
export async function measureRuns(running, { followUps: count, intervalMs, looks }) {
  const cpuBefore = running.cpuSeconds();
  const startedMs = performance.now();
  const followUps = await running.start(`run-${looks}`, count, intervalMs);
  await running.results(followUps);
  const elapsedMs = performance.now() - startedMs;
  const cpuAfter = running.cpuSeconds();

  const events = async (ids) => {
    const described = await running.describe(ids);
    return described.reduce((sum, { historyLength }) => sum + historyLength, 0) / count;
  };
  const asked = followUps.map(({ jobId }) => running.service.asked(jobId));
  const unlike = asked.filter((job) => job.messages !== 1 || job.readsAfter !== looks);
  if (unlike.length > 0) {
    throw new Error(`${unlike.length} jobs did not get 1 message and ${looks} looks: ${JSON.stringify(unlike[0])}`);
  }
  const eventsPerFollowUp = await events(followUps.map(({ workflowId }) => workflowId));
  const budgetEventsPerFollowUp = await events(running.budgets(followUps));
  const workerCpuMsPerLook = ((cpuAfter.worker - cpuBefore.worker) * 1_000) / (count * looks);
  const serverCpuMsPerLook = ((cpuAfter.server - cpuBefore.server) * 1_000) / (count * looks);
  return {
    followUpsPerSecond: count / (elapsedMs / 1_000),
    eventsPerFollowUp,
    budgetEventsPerFollowUp,
    allEventsPerFollowUp: eventsPerFollowUp + budgetEventsPerFollowUp,
    workerCpuMsPerLook,
    serverCpuMsPerLook,
    allCpuMsPerLook: workerCpuMsPerLook + serverCpuMsPerLook,
    readsBeforeSend: asked.reduce((sum, job) => sum + job.readsBefore, 0) / count,
    readsAfterSend: looks,
  };
}

/** Measures the memory of a worker while more and more follow-ups sleep between two looks. */
export async function measureSleeping(running, counts) {
  const idleBytes = await running.residentBytes();
  const measured = { idleWorkerMiB: idleBytes / 2 ** 20 };
  let asleep = 0;
  for (const count of [...counts].sort((a, b) => a - b)) {
    const followUps = await running.start(`sleep-${count}`, count - asleep, HOUR_MS);
    await untilAsleep(running, followUps);
    asleep = count;
    measured[`mibOver${count}Asleep`] = ((await running.residentBytes()) - idleBytes) / 2 ** 20;
  }
  return measured;
}

/**
 * Measures the cost of follow-ups in flight: `count` of them look every `intervalMs` at jobs that never end. The
 * measurement takes `minutes` and starts when every message was sent. CPU is in cores.
 *
 * @param say is told the progress
 */
export async function measureInFlight(running, { count, intervalMs, minutes }, say) {
  const idleBytes = await running.residentBytes();
  const databaseBefore = await running.databaseBytes();
  const beganMs = performance.now();
  const followUps = await running.start(`look-${count}`, count, intervalMs);
  const unsent = () => followUps.filter(({ jobId }) => running.service.asked(jobId).messages !== 1).length;
  while (unsent() > 0) await delay(LOOK_AGAIN_MS);
  say(`${count} follow-ups were started and sent in ${((performance.now() - beganMs) / 60_000).toFixed(1)} min`);
  const looks = () => followUps.reduce((sum, { jobId }) => sum + running.service.asked(jobId).readsAfter, 0);

  const bytesPerFollowUp = ((await running.databaseBytes()) - databaseBefore) / count;
  const residentAtFirst = await running.residentBytes();
  const [cpuBefore, looksBefore, startedMs] = [running.cpuSeconds(), looks(), performance.now()];
  for (let minute = 1; minute <= minutes; minute++) {
    await delay(startedMs + minute * 60_000 - performance.now());
    if (minute % 10 === 0) say(`${minute} min: worker ${((await running.residentBytes()) / 2 ** 20).toFixed(0)} MiB`);
  }
  const [cpuAfter, looksAfter, seconds] = [running.cpuSeconds(), looks(), (performance.now() - startedMs) / 1_000];
  const residentAtLast = await running.residentBytes();
  return {
    count,
    intervalMs,
    minutes,
    looksPerSecond: (looksAfter - looksBefore) / seconds,
    workerCores: (cpuAfter.worker - cpuBefore.worker) / seconds,
    serverCores: (cpuAfter.server - cpuBefore.server) / seconds,
    idleMiB: idleBytes / 2 ** 20,
    mibAtFirst: residentAtFirst / 2 ** 20,
    mibAtLast: residentAtLast / 2 ** 20,
    databaseKiBPerFollowUp: bytesPerFollowUp / 2 ** 10,
  };
}

/**
 * Measures how long a message of one project takes from the start of its follow-up to the service, while every read of
 * the other projects' jobs takes {@link SLOW_READ_MS}. The messages go one after the other.
 */
export async function measureBesideSlowReads(running) {
  const slow = await running.start('slow', BESIDE_SLOW.slow, SLOW_READ_MS);
  while (!slow.every(({ jobId }) => running.service.asked(jobId).messages === 1)) await delay(LOOK_AGAIN_MS);
  const tookMs = [];
  for (let number = 0; number < BESIDE_SLOW.unrelated; number++) {
    const startedMs = performance.now();
    const [{ jobId }] = await running.start(`unrelated-${number}`, 1, HOUR_MS);
    while (running.service.asked(jobId).messages === 0) await delay(1);
    tookMs.push(running.service.asked(jobId).messageAtMs - startedMs);
  }
  tookMs.sort((a, b) => a - b);
  const share = (part) => tookMs[Math.min(tookMs.length - 1, Math.floor(tookMs.length * part))];
  return { besideSlowP50Ms: share(0.5), besideSlowP95Ms: share(0.95) };
}

/** Value of the API's `PendingActivityState`. */
const STARTED = 2;

/** Whether something is under way: not a watch, which sleeps in the worker, and not a look that is due later. */
function isAtWork({ activityType, state, scheduledTime, nextAttemptScheduleTime }) {
  if (activityType?.name === 'watchJob' && Number(state) === STARTED) return false;
  return Number((nextAttemptScheduleTime ?? scheduledTime)?.seconds ?? 0) * 1_000 < Date.now() + HOUR_MS / 2;
}

/** Waits until every message was sent and every follow-up sleeps. */
async function untilAsleep(running, followUps) {
  const deadlineMs = performance.now() + SLEEP_LIMIT_MS;
  let left = [...followUps.map(({ workflowId }) => workflowId), ...running.budgets(followUps)];
  for (;;) {
    if (followUps.every(({ jobId }) => running.service.asked(jobId).messages === 1)) {
      const described = await running.describe(left);
      left = left.filter((_id, index) => {
        const { pendingActivities, pendingWorkflowTask } = described[index].raw;
        return pendingActivities?.some(isAtWork) || Boolean(pendingWorkflowTask);
      });
      if (left.length === 0) return;
    }
    if (performance.now() > deadlineMs) throw new Error(`after ${SLEEP_LIMIT_MS} ms ${left.length} do not sleep yet`);
    await delay(LOOK_AGAIN_MS);
  }
}
