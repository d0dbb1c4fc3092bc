import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';

const HOUR_MS = 3_600_000;
const LOOK_AGAIN_MS = 250;
/** Longest wait until everything sleeps. */
const SLEEP_LIMIT_MS = 600_000;

/** Follow-ups from start to end: rate, history, CPU time, calls of the service. `running` is one side, warmed up. */
export async function measureRuns(running, { followUps: count, intervalMs, polls }) {
  const cpuBefore = running.cpuSeconds();
  const startedMs = performance.now();
  const followUps = await running.start('run', count, intervalMs);
  await running.results(followUps);
  const elapsedMs = performance.now() - startedMs;
  const cpuAfter = running.cpuSeconds();

  const events = async (ids) => {
    const described = await running.describe(ids);
    return described.reduce((sum, { historyLength }) => sum + historyLength, 0) / count;
  };
  const asked = followUps.map(({ jobId }) => running.service.asked(jobId));
  const unlike = asked.filter(({ messages, readsAfter }) => messages !== 1 || readsAfter !== polls);
  if (unlike.length > 0) {
    throw new Error(`${unlike.length} jobs did not get 1 message and ${polls} polls: ${JSON.stringify(unlike[0])}`);
  }
  return {
    followUpsPerSecond: count / (elapsedMs / 1_000),
    eventsPerFollowUp: await events(followUps.map(({ workflowId }) => workflowId)),
    gateEventsPerFollowUp: await events(running.gates(followUps)),
    workerCpuMsPerFollowUp: ((cpuAfter.worker - cpuBefore.worker) * 1_000) / count,
    serverCpuMsPerFollowUp: ((cpuAfter.server - cpuBefore.server) * 1_000) / count,
    readsBeforeSend: asked.reduce((sum, { readsBefore }) => sum + readsBefore, 0) / count,
    readsAfterSend: polls,
  };
}

/** Memory of a worker that keeps follow-ups which sleep between two polls. */
export async function measureSleeping(running, { sleeping: count }) {
  const idleBytes = await running.residentBytes();
  const followUps = await running.start('sleep', count, HOUR_MS);
  await untilAsleep(running, followUps);
  const sleepingBytes = await running.residentBytes();
  return { idleWorkerMiB: idleBytes / 2 ** 20, kibPerSleeping: (sleepingBytes - idleBytes) / 1_024 / count };
}

/** Until every message was sent, and no workflow has a task or an activity left: only timers. */
async function untilAsleep(running, followUps) {
  const deadlineMs = performance.now() + SLEEP_LIMIT_MS;
  let left = [...followUps.map(({ workflowId }) => workflowId), ...running.gates(followUps)];
  for (;;) {
    if (followUps.every(({ jobId }) => running.service.asked(jobId).messages === 1)) {
      const described = await running.describe(left);
      left = left.filter((_id, index) => {
        const { pendingActivities, pendingWorkflowTask } = described[index].raw;
        return pendingActivities?.length > 0 || Boolean(pendingWorkflowTask);
      });
      if (left.length === 0) return;
    }
    if (performance.now() > deadlineMs) throw new Error(`after ${SLEEP_LIMIT_MS} ms ${left.length} do not sleep yet`);
    await delay(LOOK_AGAIN_MS);
  }
}
