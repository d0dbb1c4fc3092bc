import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { activityInfo, log, type Info } from '@temporalio/activity';
import type { AgentJobsClient, SendMessageOutcome } from '../agent-jobs/index.js';
import type { AcquireAnswer, AcquireRequest, BudgetCeiling, SendOutcome, SettleMessage } from '../contract/index.js';
import { ASK_IN_PLACE_EVERY_MS, ASKS_IN_PLACE, waitsForSends } from '../budget/ask-in-place.js';
import type { SendFollowUpInput, SendFollowUpResult, SendOutcomeResult } from '../follow-up/port.js';
import { startStopwatch } from '../stopwatch.js';
import { ASK_FOR_MS } from './ask-again.js';
import type { BudgetClient } from './budget-client.js';
import { knownBefore, type GrantMark } from './grant-mark.js';
import type { OwnRun } from './own-run.js';

/** Longest text of a rejection that the budget keeps for a follow-up whose activity's answer was lost. */
const KEPT_MESSAGE_LENGTH = 200;

/** What {@link createSendFollowUp} needs. */
export interface SendFollowUpDependencies {
  agentJobs: AgentJobsClient;
  budget: BudgetClient;
  ownRun: OwnRun;
  /** Total deadline of one POST. */
  sendTimeoutMs: number;
  /** From the grant, the POST has ended by then. */
  leaseMs: number;
  /** How long after the lease bytes may still arrive. */
  drainMs: number;
  /** The most that any budget may grant, whatever it says itself. @default none */
  ceiling?: BudgetCeiling;
}

/**
 * The `sendFollowUp` activity: ask the budget, note the grant, wait for the slot, POST, settle. Temporal retries it without
 * limit, and it still delivers at most once, for every invocation asks with a token of its own and only the one that is
 * granted may POST. The message stands in the first event of the run, and is read from there: no ask carries it.
 */
export function createSendFollowUp(dependencies: SendFollowUpDependencies) {
  const { agentJobs, budget, ownRun, sendTimeoutMs, leaseMs, drainMs, ceiling } = dependencies;

  return async function sendFollowUp(input: SendFollowUpInput): Promise<SendFollowUpResult> {
    const info = activityInfo();
    if (!info.workflowExecution) throw new Error('sendFollowUp runs only as an activity of a workflow');
    const { projectId, grantedBefore, provenNotSent, ledgerSinceMs, ...asked } = input;
    const { jobId, sendNumber, hold, firstRunStartedAtMs } = input;
    const elapsedMs = startStopwatch();
    const isReset = info.attempt === 1 && info.currentAttemptScheduledTimestampMs > info.scheduledTimestampMs;
    const mark = info.heartbeatDetails as GrantMark | undefined;
    const known = knownBefore({ grantedBefore, provenNotSent, ledgerSinceMs }, { number: info.attempt, isReset, mark });
    const request: AcquireRequest = {
      ...asked,
      workflowId: info.workflowExecution.workflowId,
      token: randomUUID(),
      attemptScheduledAtMs: info.currentAttemptScheduledTimestampMs,
      leaseMs,
      drainMs,
      ...known,
      ...(ceiling && { ceiling }),
    };
    let ask = await budget.acquire(projectId, request);
    for (let again = 0; again < ASKS_IN_PLACE && waitsForSends(ask); again++) {
      await delay(ASK_IN_PLACE_EVERY_MS);
      ask = await budget.acquire(projectId, request, Math.max(0, ASK_FOR_MS - elapsedMs()));
    }
    const { answer, proven } = ask;
    const where = { projectId, jobId, sendNumber };
    if (answer.kind === 'done') return fromRecord(answer, { leaseMs, drainMs, elapsedMs: elapsedMs() });
    if (answer.kind !== 'granted') {
      // By then the server may have another attempt at work, and what this one was told says nothing of that.
      if (elapsedMs() >= leaseMs) throw new Error('the ask took longer than its lease');
      if (!hold) log.info('The budget did not let a message through', { ...where, ...describeRefusal(answer) });
      return { ...known, ...answer, proven };
    }

    const mayStart = () => elapsedMs() < leaseMs - sendTimeoutMs;
    const prompt = await prepare(info, answer);
    const sent: SendMessageOutcome = prompt.ok
      ? await agentJobs.sendMessage({ projectId, jobId, prompt: prompt.value, mayStart })
      : { outcome: 'notSent', message: prompt.message };
    const { outcome, statusCode, retryAfterMs } = sent;
    log[outcome === 'sent' ? 'info' : 'warn'](outcome === 'sent' ? 'Sent a message' : 'A message was not taken', {
      ...where,
      outcome,
      ...(statusCode !== undefined && { statusCode }),
      ...(retryAfterMs !== undefined && { retryAfterMs }),
      waitMs: answer.grantedAtMs - firstRunStartedAtMs,
    });
    const settled = settle(projectId, request, sent);
    // Only of a message that was sent the follow-up says the same at its end, and asks for nothing before.
    if (sent.outcome !== 'sent') await settled;
    return {
      kind: 'outcome',
      ...sent,
      grantedAtMs: answer.grantedAtMs,
      mayArriveForMs: mayArriveForMs(sent.outcome, Math.max(0, leaseMs + drainMs - elapsedMs())),
      ...(answer.lastJobSeen && { lastJobSeen: answer.lastJobSeen }),
    };
  };

  /**
   * What comes between the grant and the POST. The grant is noted with the server first: where the budget and all that it
   * knew is gone, a later attempt still knows that this one may have sent. Where that cannot be noted, nothing is sent.
   */
  async function prepare(
    info: Info,
    { sendAfterMs, ledgerSinceMs }: Extract<AcquireAnswer, { kind: 'granted' }>,
  ): Promise<{ ok: true; value: string } | { ok: false; message: string }> {
    const mark: GrantMark = { ledgerSinceMs };
    // Not broken off by a shutdown, which waits longer: the grant would be lost. A timer may fire a millisecond early.
    const [read] = await Promise.allSettled([
      Promise.all([ownRun.readPrompt(info), ownRun.noteGrant(info, mark)]),
      sendAfterMs === undefined ? undefined : delay(sendAfterMs + 1),
    ]);
    if (read.status === 'fulfilled') return { ok: true, value: read.value[0] };
    const reason = read.reason instanceof Error ? read.reason.message : String(read.reason);
    return { ok: false, message: `the send could not be prepared: ${reason}` };
  }

  /** The outcome must not be lost because the budget could not be told: the follow-up's `finish` repeats it. */
  async function settle(projectId: string, request: AcquireRequest, sent: SendMessageOutcome): Promise<void> {
    const { workflowId, sendNumber, token } = request;
    try {
      await budget.tell(projectId, {
        kind: 'settle',
        workflowId,
        sendNumber,
        token,
        outcome: sent.outcome,
        ...(sent.retryAfterMs !== undefined && { retryAfterMs: sent.retryAfterMs }),
        ...(sent.outcome === 'rejected' && keptRejection(sent)),
      });
    } catch (error) {
      log.warn('The budget could not be told how a send ended; the follow-up tells it at its end', {
        projectId,
        outcome: sent.outcome,
        reason: error instanceof Error ? error.name : 'unknown',
      });
    }
  }
}

/** What the log says of an ask that was not granted. */
function describeRefusal(answer: Exclude<AcquireAnswer, { kind: 'granted' } | { kind: 'done' }>): object {
  if (answer.kind !== 'wait') return { outcome: answer.kind };
  const { reason, waitMs, position } = answer;
  return { outcome: 'wait', reason, waitMs, position };
}

/** What the budget keeps of a rejection. */
function keptRejection({ message, statusCode }: SendMessageOutcome): Pick<SettleMessage, 'message' | 'statusCode'> {
  return {
    ...(message !== undefined && { message: message.slice(0, KEPT_MESSAGE_LENGTH) }),
    ...(statusCode !== undefined && { statusCode }),
  };
}

/** The outcome of an earlier attempt's send, as the budget recorded it. */
function fromRecord(
  answer: Extract<AcquireAnswer, { kind: 'done' }>,
  { leaseMs, drainMs, elapsedMs }: { leaseMs: number; drainMs: number; elapsedMs: number },
): SendOutcomeResult {
  const { outcome, grantedAtMs, settledAtMs = grantedAtMs, message, statusCode, lastJobSeen, messageTag } = answer;
  return {
    kind: 'outcome',
    outcome,
    mayArriveForMs: mayArriveForMs(outcome, Math.max(0, leaseMs + drainMs - elapsedMs)),
    ...(grantedAtMs !== undefined && { grantedAtMs }),
    ...(settledAtMs !== undefined && { recordedAtMs: settledAtMs }),
    ...(messageTag !== undefined && { messageTag }),
    ...(message !== undefined && { message }),
    ...(statusCode !== undefined && { statusCode }),
    ...(lastJobSeen && { lastJobSeen }),
  };
}

/** Only a send whose end is not known may still have bytes on their way. */
function mayArriveForMs(outcome: SendOutcome, latestMs: number): number {
  return outcome === 'unknown' ? latestMs : 0;
}
