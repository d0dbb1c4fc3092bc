import {
  FailureType,
  formatDuration,
  isTerminalStatus,
  type AgentJob,
  type FollowUpResult,
} from '../contract/index.js';
import { isBelieved, needsConfirmation } from './belief.js';
import { endSent, endWithResult } from './endings.js';
import type { FollowUpFlow } from './flow.js';
import { jittered, nextInterval } from './intervals.js';
import { isAtWork } from './job-state.js';
import type { Ending, Steps } from './port.js';
import type { Phase, Watching } from './state.js';

/** A job that is not found that often in a row is gone. */
const NOT_FOUND_LIMIT = 3;

/** Failed reads in a row after which the follow-up is shown as blocked. */
const BLOCKED_AFTER_FAILURES = 3;

/** Wait, get-job, decide: until the job has a terminal status that belongs to this message. */
export function* watch(flow: FollowUpFlow, watching: Watching): Steps<Phase | Ending> {
  const { port, settings, state } = flow;
  const leftMs = watching.sentAtMs + settings.jobTimeoutMs - port.nowMs();
  if (flow.isCancelled) return yield* giveUp(flow, watching, FailureType.Cancelled, 'Cancelled after the send');
  if (leftMs <= 0 && watching.hasLooked) {
    const message = `The job did not end within ${formatDuration(settings.jobTimeoutMs)} of the send`;
    return yield* giveUp(flow, watching, FailureType.JobTimeout, message);
  }
  yield* waitForNextLook(flow, watching, leftMs);
  if (flow.isCancelled) return watching;

  const read = yield* flow.getJob(`poll ${state.polls + 1}`);
  state.polls += 1;
  watching.hasLooked = true;
  if (read.kind === 'job') {
    watching.failures = 0;
    watching.notFoundInARow = 0;
    const ended = judge(flow, watching, read.job);
    if (ended) return yield* endWithResult(flow, watching, ended);
  } else if (read.kind === 'notFound') {
    watching.notFoundInARow += 1;
    if (watching.notFoundInARow >= NOT_FOUND_LIMIT) {
      return yield* giveUp(flow, watching, FailureType.JobNotFound, `The job is gone: ${read.message}`);
    }
  } else {
    watching.failures += 1;
    if (read.retryAfterMs !== undefined) watching.notBeforeMs = port.nowMs() + read.retryAfterMs;
  }
  return watching;
}

/** The job, if its status ends this message's turn. */
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

function* waitForNextLook(flow: FollowUpFlow, watching: Watching, leftMs: number): Steps<void> {
  const { port, settings, state } = flow;
  const nowMs = port.nowMs();
  const atLeastMs = watching.notBeforeMs - nowMs;
  const waitMs = Math.max(0, Math.min(Math.max(jittered(watching.intervalMs, port.random()), atLeastMs), leftMs));
  watching.notBeforeMs = 0;
  watching.intervalMs = nextInterval(watching.intervalMs, settings.poll);
  const isKeyRefused = state.keyRefusedAtMs !== undefined;
  if (isKeyRefused || watching.failures >= BLOCKED_AFTER_FAILURES) {
    const waitReason = isKeyRefused ? 'credentials' : 'service';
    flow.show({ state: 'blocked', waitReason, position: 0, expectedSendAtMs: null });
  } else {
    flow.show({ state: 'polling', nextLookAtMs: nowMs + waitMs });
  }
  yield* flow.sleep(waitMs, `next poll in ${formatDuration(waitMs)}`, () => state.pollNow);
  state.pollNow = false;
}

function giveUp(flow: FollowUpFlow, { delivery }: Watching, type: FailureType, message: string): Steps<Ending> {
  const delivered = delivery === 'assumed' ? 'unknown' : 'yes';
  return endSent(flow, { type, message }, { delivered, outcome: delivery === 'sent' ? 'sent' : 'unknown' });
}
