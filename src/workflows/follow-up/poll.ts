import {
  FailureType,
  formatDuration,
  isTerminalStatus,
  type AgentJob,
  type Delivered,
  type FollowUpResult,
  type SendOutcome,
} from '../../contract/index.js';
import { isBelieved, needsConfirmation } from '../../follow-up/belief.js';
import { jittered, nextInterval } from '../../follow-up/intervals.js';
import { isAtWork } from '../../follow-up/job-state.js';
import type { FollowUpContext } from './context.js';
import { endSent, endWithResult } from './endings.js';

/** A job that is not found that often in a row is gone. */
const NOT_FOUND_LIMIT = 3;

/** Failed reads in a row after which the follow-up is shown as blocked. */
const BLOCKED_AFTER_FAILURES = 3;

/**
 * The poll loop: durable timer, get-job, decide, until the job has a terminal status that belongs to this message.
 *
 * @throws the failure that ends the follow-up
 */
export async function poll(context: FollowUpContext): Promise<FollowUpResult> {
  const { settings, state } = context;
  state.failures = 0;
  state.intervalMs = Math.min(state.intervalMs, settings.poll.maxIntervalMs);
  let waitedBefore = false;
  for (;;) {
    if (context.continueAsNewIsDue()) await context.continueAsNew();
    const sentAtMs = state.sentAtMs ?? Date.now();
    const leftMs = sentAtMs + settings.jobTimeoutMs - Date.now();
    if (context.cancellation) throw await endPolling(context, FailureType.Cancelled, 'Cancelled after the send');
    if (leftMs <= 0 && waitedBefore) {
      const message = `The job did not end within ${formatDuration(settings.jobTimeoutMs)} of the send`;
      throw await endPolling(context, FailureType.JobTimeout, message);
    }
    await waitForNextPoll(context, leftMs);
    waitedBefore = true;
    if (context.cancellation) continue;

    const read = await context.getJob(`poll ${state.polls + 1}`);
    state.polls += 1;
    if (read.kind === 'job') {
      state.failures = 0;
      state.notFoundInARow = 0;
      const ended = judge(context, read.job, sentAtMs);
      if (ended) return endWithResult(context, ended);
    } else if (read.kind === 'notFound') {
      state.notFoundInARow += 1;
      if (state.notFoundInARow >= NOT_FOUND_LIMIT) {
        throw await endPolling(context, FailureType.JobNotFound, `The job is gone: ${read.message}`);
      }
    } else {
      state.failures += 1;
      if (read.retryAfterMs !== undefined) state.pollNotBeforeMs = Date.now() + read.retryAfterMs;
    }
  }
}

/** The job, if its status ends this message's turn. */
function judge(
  context: FollowUpContext,
  job: AgentJob,
  sentAtMs: number,
): (AgentJob & { status: FollowUpResult['status'] }) | undefined {
  const { settings, state } = context;
  if (isAtWork(job)) state.observedActive = true;
  const nowMs = Date.now();
  const turn = {
    baseline: state.baseline ?? {},
    lastTurn: state.lastTurn,
    sentAtMs,
    settleTimeMs: settings.settleTimeMs,
  };
  const { status } = job;
  if (!isTerminalStatus(status) || !isBelieved(job, turn, state.observedActive, nowMs)) {
    state.terminalSeen = false;
    return undefined;
  }
  if (needsConfirmation(sentAtMs, nowMs, state.terminalSeen)) {
    state.terminalSeen = true;
    return undefined;
  }
  return { ...job, status };
}

async function waitForNextPoll(context: FollowUpContext, leftMs: number): Promise<void> {
  const { settings, state } = context;
  const notBeforeMs = (state.pollNotBeforeMs ?? 0) - Date.now();
  const waitMs = Math.max(0, Math.min(Math.max(jittered(state.intervalMs, Math.random()), notBeforeMs), leftMs));
  delete state.pollNotBeforeMs;
  state.intervalMs = nextInterval(state.intervalMs, settings.poll);
  state.nextPollAtMs = Date.now() + waitMs;
  const isKeyRefused = state.keyRefusedAtMs !== undefined;
  const isBlocked = isKeyRefused || state.failures >= BLOCKED_AFTER_FAILURES;
  if (isBlocked) state.wait = { reason: isKeyRefused ? 'credentials' : 'service', position: 0 };
  context.show(isBlocked ? 'blocked' : 'polling');
  await context.sleep(waitMs, `next poll in ${formatDuration(waitMs)}`, () => state.pollNow);
  state.pollNow = false;
}

function endPolling(context: FollowUpContext, type: FailureType, message: string) {
  const delivery = context.state.delivery;
  const delivered: Delivered = delivery === 'assumed' ? 'unknown' : 'yes';
  const outcome: SendOutcome = delivery === 'sent' ? 'sent' : 'unknown';
  return endSent(context, type, message, { delivered }, outcome);
}
