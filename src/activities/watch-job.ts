import { setMaxListeners } from 'node:events';
import { ApplicationFailure, Context } from '@temporalio/activity';
import { ApplicationFailureCategory } from '@temporalio/common';
import { iso } from '../common/index.js';
import {
  firstObservation,
  judge,
  type Observation,
  resumeObservation,
  type WatchRequest,
  type WatchResult,
} from '../follow-up/judge.js';
import { ownRun, sleepUnless } from './activity-context.js';
import { type ActivityDependencies, processClocks } from './dependencies.js';
import { toRead } from './job-read.js';

/** Interval of heartbeats without news. A heartbeat costs more than a poll. */
const BEAT_MS = 60_000;
/** A watch sleeps in the process for a shorter wait than this, even if more than `maxWatches` do. */
const SHORT_SLEEP_MS = 1_000;

/**
 * The activity that polls the job until the request's goal is reached. It sleeps in this process if few watches do;
 * otherwise the attempt fails, and the server starts another one when the next poll is due. Its heartbeats hold what it has
 * seen.
 *
 * @throws ApplicationFailure `Later`, benign
 */
export function createWatchJob(dependencies: ActivityDependencies) {
  const { agentJobs, maxWatches, ending, clocks = processClocks } = dependencies;
  let watches = 0;
  // One for each sleeping watch.
  setMaxListeners(0, ending);

  return async function watchJob(request: WatchRequest): Promise<WatchResult> {
    const context = Context.current();
    const { currentAttemptScheduledTimestampMs } = context.info;
    const heartbeatDetails = context.info.heartbeatDetails as Observation | undefined;
    const startedAtMs = clocks.stopwatchMs();
    // The server's clock, measured from the attempt's start: the clocks of workers differ and may be set.
    const nowMs = () => currentAttemptScheduledTimestampMs + clocks.stopwatchMs() - startedAtMs;
    const observation: Observation = heartbeatDetails ?? request.observation ?? firstObservation(request, nowMs());
    if (request.runId !== ownRun().runId) return { kind: 'foreign', observation };
    if (heartbeatDetails) resumeObservation(observation, currentAttemptScheduledTimestampMs);
    const waitMs = () => Math.max(0, Date.parse(observation.nextPollAt) - nowMs());
    let [lastBeat, lastBeatAtMs] = ['', -Infinity];
    const summaryOf = ({ job, lastError, observedActive }: Observation) =>
      JSON.stringify([job, lastError, observedActive]);
    const sinceBeatMs = () => clocks.stopwatchMs() - lastBeatAtMs;
    const beat = () => {
      context.heartbeat(observation);
      [lastBeat, lastBeatAtMs] = [summaryOf(observation), clocks.stopwatchMs()];
    };
    watches += 1;
    try {
      for (;;) {
        const isLong = waitMs() > SHORT_SLEEP_MS;
        if (ending.aborted || (isLong && watches > maxWatches)) {
          beat();
          throw later(request.jobId, waitMs());
        }
        if (waitMs() > 0) {
          if (sinceBeatMs() >= BEAT_MS) beat();
          await sleepUnless(ending, Math.min(waitMs(), BEAT_MS - sinceBeatMs()));
          continue;
        }
        // A response is as old as its request, even if the process stood still in between.
        const readAtMs = nowMs();
        const read = toRead(await agentJobs.getJob(request));
        const end = judge(request, observation, read, readAtMs);
        const retryAfterMs = read.kind === 'failed' ? (read.retryAfterMs ?? 0) : 0;
        const nextMs = nowMs() + Math.max(jittered(observation.intervalMs), retryAfterMs);
        observation.nextPollAt = iso(Math.min(nextMs, Math.max(nowMs(), request.deadlineMs)));
        if (end) return { ...end, observation };
        if (summaryOf(observation) !== lastBeat || sinceBeatMs() >= BEAT_MS) beat();
      }
    } finally {
      watches -= 1;
    }
  };
}

function later(jobId: string, waitMs: number): ApplicationFailure {
  return ApplicationFailure.create({
    type: 'Later',
    message: `The next poll of job ${jobId} is due later`,
    nextRetryDelay: Math.max(1, Math.ceil(waitMs)),
    category: ApplicationFailureCategory.BENIGN,
  });
}

/** Varies a wait by up to 10 %, so that watches that started together drift apart. */
const jittered = (ms: number): number => ms * (0.9 + 0.2 * Math.random());
