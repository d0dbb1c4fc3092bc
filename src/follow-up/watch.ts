import {
  type AgentJob,
  type FailureDetails,
  FailureType,
  type FollowUpResult,
  formatDuration,
  isTerminalStatus,
} from '../contract/index.js';
import { isAtWork, isBelieved, needsConfirmation } from './belief.js';
import { endSent, endWithResult } from './endings.js';
import { type FollowUpFlow, TELL_OF_KEY_EVERY_MS } from './flow.js';
import {
  failuresAfter,
  isNewToPeople,
  jittered,
  nextInterval,
  NOT_FOUND_LIMIT,
  shownOf,
  troubleShown,
  watchUntilMs,
} from './look.js';
import type { Ending, GetJobResult, Shown, Steps } from './port.js';
import type { Phase, Watching } from './state.js';

/**
 * Reads the job until it has a terminal status that belongs to this message. One step is one change of what people are
 * shown; within it the watch reads repeatedly. If a decision depends on the very next look, a timer comes before that
 * look.
 */
export function* watch(flow: FollowUpFlow, watching: Watching): Steps<Phase | Ending> {
  const { port, settings } = flow;
  const timeoutAtMs = watching.sentAtMs + settings.jobTimeoutMs;
  if (flow.isCancelled) return yield* giveUp(flow, watching, FailureType.Cancelled, 'Cancelled after the send');
  if (port.nowMs() >= timeoutAtMs && watching.hasLooked) {
    const message = `The job did not end within ${formatDuration(settings.jobTimeoutMs)} of the send`;
    return yield* giveUp(flow, watching, FailureType.JobTimeout, message);
  }
  const notBeforeMs = Math.min(nextLookMs(flow, watching), timeoutAtMs);
  const decidesNext = watching.terminalSeen || watching.notFoundInARow > 0;
  const read = yield* decidesNext
    ? lookOnce(flow, watching, notBeforeMs)
    : lookUntilNew(flow, watching, { notBeforeMs, timeoutAtMs });
  if (!read) return watching;
  watching.hasLooked = true;
  watching.trouble = troubleShown(watching.trouble, read, watching.failures);
  watching.notFoundInARow = read.kind === 'notFound' ? watching.notFoundInARow + 1 : 0;
  switch (read.kind) {
    case 'job': {
      const ended = judge(flow, watching, read.job);
      return ended ? yield* endWithResult(flow, watching, ended) : watching;
    }
    case 'notFound':
      if (watching.notFoundInARow < NOT_FOUND_LIMIT) return watching;
      return yield* giveUp(flow, watching, FailureType.JobNotFound, `The job is gone: ${read.message}`, {
        statusCode: 404,
        serviceMessage: read.message,
      });
    case 'failed':
      if (read.retryAfterMs !== undefined) watching.notBeforeMs = port.nowMs() + read.retryAfterMs;
      return watching;
  }
}

/** Returns when the next look is due. Consumes a Retry-After. */
function nextLookMs({ port }: FollowUpFlow, watching: Watching): number {
  const dueAtMs = Math.max(port.nowMs() + jittered(watching.intervalMs, port.random()), watching.notBeforeMs);
  watching.notBeforeMs = 0;
  return dueAtMs;
}

/** A look after a timer; `undefined` if the follow-up was cancelled. */
function* lookOnce(flow: FollowUpFlow, watching: Watching, dueAtMs: number): Steps<GetJobResult | undefined> {
  const { port, settings, state } = flow;
  const waitMs = Math.max(0, dueAtMs - port.nowMs());
  watching.intervalMs = nextInterval(watching.intervalMs, settings.poll);
  showWatch(flow, watching, dueAtMs);
  yield* flow.sleep(waitMs, `next poll in ${formatDuration(waitMs)}`, () => state.pollNow);
  state.pollNow = false;
  return flow.isCancelled ? undefined : yield* lookNow(flow, watching);
}

function* lookNow(flow: FollowUpFlow, watching: Watching): Steps<GetJobResult> {
  flow.state.polls += 1;
  const read = yield* flow.getJob(`poll ${flow.state.polls}`);
  watching.failures = failuresAfter(watching.failures, read);
  return read;
}

/** A watch, until it ends or an extra look finds something new; `undefined` if the follow-up was cancelled. */
function* lookUntilNew(
  flow: FollowUpFlow,
  watching: Watching,
  { notBeforeMs, timeoutAtMs }: { notBeforeMs: number; timeoutAtMs: number },
): Steps<GetJobResult | undefined> {
  const { port, settings, state } = flow;
  const since = sinceOf(flow, watching);
  const settledAtMs = watching.sentAtMs + settings.settleTimeMs;
  // A follow-up that waits for a key reports it repeatedly.
  const tellAgainAtMs = state.keyRefusedAtMs === undefined ? Infinity : state.keyRefusedAtMs + TELL_OF_KEY_EVERY_MS;
  const untilMs = Math.min(watchUntilMs(since, { settledAtMs, notBeforeMs, timeoutAtMs }), tellAgainAtMs);
  const { projectId, jobId, poll } = settings;
  showWatch(flow, watching, notBeforeMs);
  const { intervalMs, failures } = watching;
  const startedAtMs = port.nowMs();
  port.startWatch({ projectId, jobId, since, poll, intervalMs, failures, startedAtMs, notBeforeMs, untilMs });
  for (;;) {
    const end = yield* port.awaitWatch(() => flow.isCancelled || state.pollNow);
    if (end) {
      state.polls += end.looks;
      if (end.kind === 'stopped') return yield* lookNow(flow, watching);
      watching.intervalMs = end.intervalMs;
      watching.failures = end.failures;
      yield* flow.noteRead(end.read);
      return end.read;
    }
    state.pollNow = false;
    const read = flow.isCancelled ? undefined : yield* lookNow(flow, watching);
    if (read && !isNewToPeople(since, read, watching.failures)) continue;
    const { looks } = yield* port.stopWatch();
    state.polls += looks;
    return read;
  }
}

/** What people are shown now. The answer to a message may lack fields that a read has. */
function sinceOf({ state }: FollowUpFlow, { baseline, hasLooked, trouble }: Watching): Shown {
  return shownOf({ ...(!hasLooked && baseline), ...state.seen?.job }, trouble);
}

/** Returns the job if its status ends this message's turn. */
function judge(
  { port, settings, state }: FollowUpFlow,
  watching: Watching,
  job: AgentJob,
): (AgentJob & { status: FollowUpResult['status'] }) | undefined {
  if (isAtWork(job)) watching.observedActive = true;
  const nowMs = port.nowMs();
  const { baseline, sentAtMs, observedActive, terminalSeen } = watching;
  const turn = { baseline, lastTurn: state.lastTurn, sentAtMs, settleTimeMs: settings.settleTimeMs };
  const { status } = job;
  watching.terminalSeen = isBelieved(job, turn, observedActive, nowMs);
  if (!isTerminalStatus(status) || !watching.terminalSeen) return undefined;
  return needsConfirmation(sentAtMs, nowMs, terminalSeen) ? undefined : { ...job, status };
}

function showWatch(flow: FollowUpFlow, { trouble }: Watching, nextLookAtMs: number): void {
  const isKeyRefused = flow.state.keyRefusedAtMs !== undefined;
  if (!isKeyRefused && trouble !== 'unreadable') return flow.show({ state: 'polling', nextLookAtMs });
  const waitReason = isKeyRefused ? 'credentials' : 'service';
  flow.show({ state: 'blocked', waitReason, position: 0, expectedSendAtMs: null, nextTryAtMs: nextLookAtMs });
}

function giveUp(
  flow: FollowUpFlow,
  { delivery }: Watching,
  type: FailureType,
  message: string,
  details: Pick<FailureDetails, 'statusCode' | 'serviceMessage'> = {},
): Steps<Ending> {
  const delivered = delivery === 'assumed' ? 'unknown' : 'yes';
  return endSent(flow, { type, message, details }, { delivered, outcome: delivery === 'sent' ? 'sent' : 'unknown' });
}
