import { isUndelivered } from '../budget/index.js';
import { defined } from '../contract/defined.js';
import {
  describeIssues,
  type FailureDetails,
  FailureType,
  type FollowUpState as ShownState,
  formatDuration,
  type WaitReason,
} from '../contract/index.js';
import { isAtWork } from './belief.js';
import { describeBudgetWait } from './details.js';
import { endSent, endUnsent } from './endings.js';
import type { FollowUpFlow } from './flow.js';
import { backoffMs, jittered, nextInterval, NOT_FOUND_LIMIT } from './look.js';
import type { Ending, GetJobResult, SendFollowUpResult, SendOutcomeResult, Steps } from './port.js';
import { type Asking, newWatching, type Phase } from './state.js';
import { isSameMessage } from './turn.js';

const NOT_FOUND_RETRY_MS = 1_000;

/** How often a follow-up confirms its place in the queue while the job works on somebody else's message. */
const HOLD_EVERY_MS = 10 * 60_000;

/** Most tries of the last ask of a follow-up that gives up, and the longest pause between two. */
const LAST_ASK_TRIES = 5;
const LAST_ASK_PAUSE_MS = 5_000;

/** Before the send, and the send itself: read the job, ask the budget, and wait if necessary. */
export function* askAndSend(flow: FollowUpFlow, asking: Asking): Steps<Phase | Ending> {
  const { port, settings, state } = flow;
  if (flow.isCancelled) {
    return yield* giveUp(flow, asking, FailureType.Cancelled, 'Cancelled before the message was sent');
  }
  if (budgetWaitLeftMs(flow) <= 0) {
    const message = `The message could not be sent within ${formatDuration(settings.budgetWaitTimeoutMs)}`;
    return yield* giveUp(flow, asking, FailureType.BudgetWaitTimeout, message);
  }
  const read = yield* flow.getJob('baseline', { beforeSend: true });
  if (read.kind !== 'job') return yield* withoutBaseline(flow, asking, read);
  asking.failures = 0;
  asking.notFoundInARow = 0;
  asking.baseline = read.job;
  if (read.job.status === 'archived') {
    return yield* giveUp(flow, asking, FailureType.JobArchived, 'The job was archived before the message was sent');
  }
  const hold = settings.whenActive === 'wait' && isAtWork(read.job);
  if (!hold) asking.intervalMs = settings.poll.initialIntervalMs;
  const keepsPlace = port.nowMs() - asking.heldAtMs < HOLD_EVERY_MS;
  if (hold && keepsPlace && !flow.isWoken) return yield* waitForJob(flow, asking);
  if (state.attributes.state === undefined) flow.show(hold ? JOB_BUSY : { state: 'sending' });
  const answer = yield* flow.send(hold ? 'hold' : undefined);
  if (hold && answer.kind === 'wait') {
    asking.heldAtMs = port.nowMs();
    return yield* waitForJob(flow, asking);
  }
  return yield* handle(flow, asking, answer);
}

const JOB_BUSY = { state: 'waiting-for-job', waitReason: 'job-busy', position: 0, expectedSendAtMs: null } as const;

/** The job could not be read before the send. */
function* withoutBaseline(
  flow: FollowUpFlow,
  asking: Asking,
  read: Exclude<GetJobResult, { kind: 'job' }>,
): Steps<Phase | Ending> {
  if (read.kind === 'notFound') {
    asking.failures = 0;
    asking.notFoundInARow += 1;
    if (asking.notFoundInARow >= NOT_FOUND_LIMIT) {
      const message = `The service does not know the job: ${read.message}`;
      const details = { statusCode: 404, serviceMessage: read.message };
      return yield* giveUp(flow, asking, FailureType.JobNotFound, message, details);
    }
    flow.show({ state: 'sending' });
    yield* flow.sleep(NOT_FOUND_RETRY_MS, 'job not found, look again');
    return asking;
  }
  if (read.reason === 'not-served') {
    const issues = [{ field: 'projectId', message: read.message }];
    const message = `Invalid input: ${describeIssues(issues)}`;
    return yield* giveUp(flow, asking, FailureType.InvalidInput, message, { issues });
  }
  asking.notFoundInARow = 0;
  asking.failures += 1;
  const waitReason = flow.state.keyRefusedAtMs === undefined ? 'service' : 'credentials';
  const waitMs = Math.max(backoffMs(asking.failures), read.retryAfterMs ?? 0);
  const nextTryAtMs = flow.port.nowMs() + waitMs;
  flow.show({ state: 'blocked', waitReason, position: 0, expectedSendAtMs: null, nextTryAtMs });
  yield* pause(flow, waitMs, `${read.message}; look again in ${formatDuration(waitMs)}`);
  return asking;
}

function* handle(flow: FollowUpFlow, asking: Asking, answer: SendFollowUpResult): Steps<Phase | Ending> {
  const { port, settings, state } = flow;
  if (isOfAnotherMessage(flow, answer)) {
    const message = 'The key was already used for another message, and this one was not sent; use a different key';
    return yield* endUnsent(flow, { type: FailureType.Closed, message }, true);
  }
  switch (answer.kind) {
    case 'outcome':
      return yield* handleOutcome(flow, asking, answer);
    case 'wait':
      return yield* waitForBudget(flow, asking, answer);
    case 'alreadyGranted': {
      // That attempt may still run until its lease and drain are over.
      if (answer.lastJobSeen) state.lastTurn = answer.lastJobSeen;
      const nowMs = port.nowMs();
      const grantedAtMs = answer.grantedAtMs ?? nowMs;
      const overAtMs = nowMs + answer.leaseLeftMs + answer.drainLeftMs;
      return {
        kind: 'reconciling',
        baseline: asking.baseline,
        grantedAtMs,
        untilMs: Math.max(overAtMs, grantedAtMs + settings.settleTimeMs),
        askAgainFirst: true,
        operatorWord: null,
        intervalMs: settings.poll.initialIntervalMs,
      };
    }
    case 'stale':
      yield* flow.sleep(flow.staleBackoffMs(), 'ask was overtaken, ask again');
      return asking;
    case 'closed': {
      const message = 'The budget has already recorded the end of this follow-up';
      return yield* endUnsent(flow, { type: FailureType.Closed, message }, true);
    }
  }
}

/**
 * Whether the budget's answer is about another message: an earlier start with the same key may have had another prompt.
 */
function isOfAnotherMessage(flow: FollowUpFlow, answer: SendFollowUpResult): boolean {
  const tag = 'messageTag' in answer ? answer.messageTag : undefined;
  if (tag === undefined || (answer.kind === 'outcome' && isUndelivered(answer.outcome))) return false;
  if (!isSameMessage(tag, flow.messageTag())) return true;
  flow.state.recordedTag = tag;
  return false;
}

/** What a send's outcome means for the follow-up: another phase, another try, or its own end. */
export function* handleOutcome(flow: FollowUpFlow, asking: Asking, answer: SendOutcomeResult): Steps<Phase | Ending> {
  const { port, settings, state } = flow;
  const { baseline, intervalMs } = asking;
  const nowMs = port.nowMs();
  if (answer.lastJobSeen) state.lastTurn = answer.lastJobSeen;
  if (answer.message !== undefined) flow.noteError(answer.message);
  switch (answer.outcome) {
    case 'sent':
      if (answer.job) state.seen = { job: answer.job, atMs: nowMs, isSinceSend: true };
      return newWatching(baseline, { delivery: 'sent', sentAtMs: answer.recordedAtMs ?? nowMs, intervalMs });
    case 'unknown': {
      const grantedAtMs = answer.grantedAtMs ?? nowMs;
      return {
        kind: 'reconciling',
        baseline,
        grantedAtMs,
        untilMs: Math.max(nowMs + answer.mayArriveForMs, grantedAtMs + settings.settleTimeMs),
        askAgainFirst: false,
        operatorWord: null,
        intervalMs: settings.poll.initialIntervalMs,
      };
    }
    case 'rejected': {
      const { statusCode, message: serviceMessage } = answer;
      const failure = {
        type: statusCode === 404 ? FailureType.JobNotFound : FailureType.MessageRejected,
        message: `The service refused the message: ${serviceMessage ?? 'it gave no reason'}`,
        details: defined({ statusCode, serviceMessage }),
      };
      const delivered = state.earlierSendUnknown ? 'unknown' : 'no';
      return yield* endSent(flow, failure, { delivered, outcome: 'rejected' });
    }
    case 'notSent':
    case 'limited':
    case 'unauthorized': {
      flow.beginNextSend();
      // The budget paces messages that the service refused. Only messages that never reached it are paced here.
      asking.notSentInARow = answer.outcome === 'notSent' ? asking.notSentInARow + 1 : 0;
      if (answer.outcome === 'notSent') {
        const waitMs = jittered(backoffMs(asking.notSentInARow), port.random());
        yield* pause(flow, waitMs, `not sent; try again in ${formatDuration(waitMs)}`);
      }
      return asking;
    }
  }
}

function* waitForBudget(
  flow: FollowUpFlow,
  asking: Asking,
  { reason, waitMs, position, etaMs, pause: paused }: Extract<SendFollowUpResult, { kind: 'wait' }>,
): Steps<Phase> {
  const nowMs = flow.port.nowMs();
  const expectedSendAtMs = etaMs === null ? null : nowMs + etaMs;
  flow.show({
    state: shownStateOf(reason),
    waitReason: reason,
    position,
    expectedSendAtMs,
    ...(reason !== 'slot' && { nextTryAtMs: nowMs + waitMs }),
    ...defined({ pause: paused }),
  });
  yield* pause(flow, waitMs, describeBudgetWait(reason, position, etaMs, nowMs), () => flow.isWoken);
  return asking;
}

/** Somebody else's turn is under way. Reads the job again, at the intervals of a watch. */
function* waitForJob(flow: FollowUpFlow, asking: Asking): Steps<Phase> {
  const waitMs = jittered(asking.intervalMs, flow.port.random());
  flow.show({ ...JOB_BUSY, nextTryAtMs: flow.port.nowMs() + waitMs });
  asking.intervalMs = nextInterval(asking.intervalMs, flow.settings.poll);
  const summary = `job is active; look again in ${formatDuration(waitMs)}`;
  flow.forgetCall();
  yield* pause(flow, waitMs, summary, () => flow.isWoken);
  return asking;
}

/** Sleeps, but not beyond `budgetWaitTimeout`. `pollNow` ends the sleep. */
function* pause(flow: FollowUpFlow, ms: number, summary: string, until: () => boolean = () => false): Steps<void> {
  yield* flow.sleep(Math.min(ms, budgetWaitLeftMs(flow)), summary, () => flow.state.pollNow || until());
  flow.state.pollNow = false;
}

function budgetWaitLeftMs({ port, settings, state }: FollowUpFlow): number {
  return state.firstRunStartedAtMs + settings.budgetWaitTimeoutMs - port.nowMs();
}

/**
 * Ends a follow-up that was not sent. If the budget's latest answer does not prove that nothing was sent, the follow-up
 * asks to leave first. If that answer says that something was granted, the follow-up continues from there.
 */
function* giveUp(
  flow: FollowUpFlow,
  asking: Asking,
  type: FailureType,
  message: string,
  details: Pick<FailureDetails, 'issues' | 'statusCode' | 'serviceMessage'> = {},
): Steps<Phase | Ending> {
  const { port, state } = flow;
  if (port.replacesRun) state.provenNotSent = false;
  for (let tries = 0; !state.provenNotSent && tries < LAST_ASK_TRIES; tries++) {
    const answer = yield* flow.send('withdraw');
    if (answer.kind === 'outcome' || answer.kind === 'alreadyGranted') {
      const step = yield* handle(flow, asking, answer);
      if (step !== asking) return step;
    } else if (answer.kind === 'wait' && isWithoutBudget(answer.reason)) {
      break;
    } else if (answer.kind === 'closed') {
      // It has left and need not tell the budget again.
      state.knownToBudget = false;
    } else if (!state.provenNotSent) {
      const waitMs = answer.kind === 'wait' ? answer.waitMs : flow.staleBackoffMs();
      // A cancel does not cut this short: without a pause, all tries would meet the same slow budget.
      yield* port.sleep(Math.min(Math.max(1, waitMs), LAST_ASK_PAUSE_MS), 'ask once more', () => false);
    }
  }
  return yield* endUnsent(flow, { type, message, details }, state.provenNotSent);
}

/** Whether the budget cannot answer, possibly for a long time. */
function isWithoutBudget(reason: WaitReason): boolean {
  return reason === 'gate-stopped' || reason === 'budget-silent';
}

function shownStateOf(reason: WaitReason): Extract<ShownState, 'waiting-for-budget' | 'waiting-for-job' | 'blocked'> {
  if (reason === 'slot') return 'waiting-for-budget';
  return reason === 'job-busy' ? 'waiting-for-job' : 'blocked';
}
