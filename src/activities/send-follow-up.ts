import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { activityInfo, type Info, log } from '@temporalio/activity';
import type { AgentJobsClient, SendMessageOutcome } from '../agent-jobs/index.js';
import { defined } from '../contract/defined.js';
import type { SendOutcome } from '../contract/index.js';
import type { AcquireAnswer, AcquireRequest, BudgetCeiling, BudgetWord, SettleMessage } from '../contract/protocol.js';
import type { SendFollowUpInput, SendFollowUpResult, SendOutcomeResult } from '../follow-up/port.js';
import { startStopwatch } from '../stopwatch.js';
import { ASK_FOR_MS, asksInPlace, type GrantMark, isSettleUrgent, knownBefore } from './ask-again.js';
import type { BudgetClient } from './budget-client.js';
import type { OwnRun } from './own-run.js';

/** Longest text of a rejection that the budget keeps, for a follow-up whose activity's answer was lost. */
const KEPT_MESSAGE_LENGTH = 200;

export interface SendFollowUpDependencies {
  agentJobs: AgentJobsClient;
  budget: BudgetClient;
  ownRun: OwnRun;
  /** Total deadline of one POST. */
  sendTimeoutMs: number;
  /** How long after the grant the POST has certainly ended. */
  leaseMs: number;
  /** How long after the lease bytes may still arrive. */
  drainMs: number;
  /** The most that any budget may grant, whatever its own settings say. @default none */
  ceiling?: BudgetCeiling;
  /** Told how long after the follow-up's start the service took a message, in milliseconds. */
  onSent?: (startToSendMs: number) => void;
}

/**
 * The `sendFollowUp` activity: ask the budget, note the grant, wait for the slot, POST, settle. Temporal retries it
 * without limit, and it still delivers at most once: every invocation asks with its own token, and only the one that is
 * granted may POST. The message is read from the first event of the run, so that no ask has to carry it.
 */
export function createSendFollowUp(dependencies: SendFollowUpDependencies) {
  const { agentJobs, budget, ownRun, sendTimeoutMs, leaseMs, drainMs, ceiling, onSent } = dependencies;

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
      ...defined({ ceiling }),
    };
    let ask = await budget.acquire(projectId, request);
    let inPlace = asksInPlace(ask);
    const inPlaceUntilMs = elapsedMs() + (inPlace?.forMs ?? 0);
    while (inPlace && elapsedMs() < inPlaceUntilMs) {
      await delay(inPlace.afterMs);
      ask = await budget.acquire(projectId, request, Math.max(0, ASK_FOR_MS - elapsedMs()));
      inPlace = asksInPlace(ask);
    }
    const { answer, proven } = ask;
    const where = { projectId, jobId, sendNumber };
    if (answer.kind === 'done') return fromRecord(answer, { leaseMs, drainMs, elapsedMs: elapsedMs() });
    if (answer.kind !== 'granted') {
      // By now the server may run another attempt, of which this attempt's answer says nothing.
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
      ...defined({ statusCode, retryAfterMs }),
      waitMs: answer.grantedAtMs - firstRunStartedAtMs,
    });
    if (outcome === 'sent') onSent?.(Date.now() - firstRunStartedAtMs);
    const settled = settle(projectId, request, sent, isSettleUrgent(outcome, answer));
    // If the message was sent, the follow-up repeats that at its end and asks for nothing before. Otherwise wait.
    if (sent.outcome !== 'sent') await settled;
    return {
      kind: 'outcome',
      ...sent,
      grantedAtMs: answer.grantedAtMs,
      mayArriveForMs: mayArriveForMs(sent.outcome, Math.max(0, leaseMs + drainMs - elapsedMs())),
      ...defined({ lastJobSeen: answer.lastJobSeen }),
    };
  };

  /**
   * Prepares the POST after the grant. First the grant is noted with the server: if the budget and everything that it
   * knew is lost, a later attempt still knows that this one may have sent. If the grant cannot be noted, nothing is
   * sent.
   */
  async function prepare(
    info: Info,
    { sendAfterMs, ledgerSinceMs }: Extract<AcquireAnswer, { kind: 'granted' }>,
  ): Promise<{ ok: true; value: string } | { ok: false; message: string }> {
    const mark: GrantMark = { ledgerSinceMs };
    // A shutdown does not interrupt this, because the grant would be lost. It waits longer than this takes. Timers may
    // fire a millisecond early, hence the 1.
    const [read] = await Promise.allSettled([
      Promise.all([ownRun.readPrompt(info), ownRun.noteGrant(info, mark)]),
      sendAfterMs === undefined ? undefined : delay(sendAfterMs + 1),
    ]);
    if (read.status === 'fulfilled') return { ok: true, value: read.value[0] };
    const reason = read.reason instanceof Error ? read.reason.message : String(read.reason);
    return { ok: false, message: `the send could not be prepared: ${reason}` };
  }

  /** If the budget cannot be told, the outcome is not lost: the follow-up's `finish` repeats it. */
  async function settle(
    projectId: string,
    { workflowId, sendNumber, token }: AcquireRequest,
    sent: SendMessageOutcome,
    isUrgent: boolean,
  ): Promise<void> {
    const word: BudgetWord = {
      kind: 'settle',
      workflowId,
      sendNumber,
      token,
      outcome: sent.outcome,
      ...defined({ retryAfterMs: sent.retryAfterMs }),
      ...(sent.outcome === 'rejected' && keptRejection(sent)),
    };
    try {
      await budget.tell(projectId, word, { isUrgent });
    } catch (error) {
      log.warn('The budget could not be told how a send ended; the follow-up tells it at its end', {
        projectId,
        outcome: sent.outcome,
        reason: error instanceof Error ? error.name : 'unknown',
      });
    }
  }
}

function describeRefusal(answer: Exclude<AcquireAnswer, { kind: 'granted' } | { kind: 'done' }>): object {
  if (answer.kind !== 'wait') return { outcome: answer.kind };
  const { reason, waitMs, position } = answer;
  return { outcome: 'wait', reason, waitMs, position };
}

function keptRejection({ message, statusCode }: SendMessageOutcome): Pick<SettleMessage, 'message' | 'statusCode'> {
  return defined({ message: message?.slice(0, KEPT_MESSAGE_LENGTH), statusCode });
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
    ...defined({ grantedAtMs, recordedAtMs: settledAtMs, messageTag, message, statusCode, lastJobSeen }),
  };
}

/** Only a send with an unknown outcome may still have bytes on their way. */
function mayArriveForMs(outcome: SendOutcome, latestMs: number): number {
  return outcome === 'unknown' ? latestMs : 0;
}
