import { FailureType, formatDuration, type WaitReason } from '../../contract/index.js';
import { showsDelivery } from '../../follow-up/belief.js';
import { jittered, nextInterval } from '../../follow-up/intervals.js';
import { isAtWork } from '../../follow-up/job-state.js';
import { handleOutcome } from './ask.js';
import type { FollowUpContext } from './context.js';
import { endSent } from './endings.js';

/**
 * A send whose outcome is not known: the job is read until no byte can arrive any more and the settle time has passed.
 * Evidence that it was delivered goes on to polling; without any, `onUnknownDelivery` or an operator decides. Ends in
 * phase `polling`, or `asking` where the message is to be sent again.
 *
 * @throws the failure that ends the follow-up
 */
export async function reconcile(context: FollowUpContext): Promise<void> {
  const { settings, state } = context;
  state.intervalMs = settings.poll.initialIntervalMs;
  context.show('reconciling');
  for (;;) {
    if (context.continueAsNewIsDue()) await context.continueAsNew();
    if (context.cancellation) {
      const message = 'Cancelled while it was not known whether the message was delivered';
      throw await endSent(context, FailureType.Cancelled, message, { delivered: 'unknown' }, 'unknown');
    }
    if (state.operatorWord === 'sent') return goOn(context, 'assumed');
    const read = await context.getJob('reconcile');
    state.polls += 1;
    if (read.kind === 'job' && state.baseline) {
      const evidence = showsDelivery(read.job, { baseline: state.baseline, lastTurn: state.lastTurn });
      if (evidence) {
        if (isAtWork(read.job)) state.observedActive = true;
        return goOn(context, 'inferred');
      }
    }
    const leftMs = (state.reconcileUntilMs ?? 0) - Date.now();
    if (leftMs <= 0) break;
    await lookLater(context, leftMs);
  }
  if (state.askAgainFirst) return askForOutcome(context);
  return conclude(context);
}

async function lookLater(context: FollowUpContext, leftMs: number): Promise<void> {
  const { settings, state } = context;
  const waitMs = Math.min(leftMs, jittered(state.intervalMs, Math.random()));
  state.intervalMs = nextInterval(state.intervalMs, settings.poll);
  state.nextPollAtMs = Date.now() + waitMs;
  context.show('reconciling');
  await context.sleep(
    waitMs,
    `delivery unknown; look again in ${formatDuration(waitMs)}`,
    () => state.pollNow || state.operatorWord === 'sent',
  );
  state.pollNow = false;
}

/** The attempt that was granted is over by now, and may have settled since. */
async function askForOutcome(context: FollowUpContext): Promise<void> {
  const { state } = context;
  const answer = await context.send('hold');
  if (answer.kind === 'outcome' && answer.outcome !== 'unknown') {
    delete state.askAgainFirst;
    delete state.operatorWord;
    state.phase = 'asking';
    // The baseline stays: by now the job may show what the message has done.
    return handleOutcome(context, answer);
  }
  if (answer.kind === 'stale' || (answer.kind === 'wait' && mayAnswerYet(context, answer))) {
    const waitMs = answer.kind === 'wait' ? answer.waitMs : context.staleBackoffMs();
    await context.sleep(waitMs, 'ask once more', () => state.operatorWord === 'sent');
    return;
  }
  delete state.askAgainFirst;
  return conclude(context);
}

/** Whether to ask once more after an answer that was not the gate's: one that is silent is waited for, but not for ever. */
function mayAnswerYet(
  { settings, state }: FollowUpContext,
  { proven, reason }: { proven: boolean; reason: WaitReason },
) {
  if (proven || reason === 'gate-stopped') return false;
  return reason !== 'budget-silent' || Date.now() < state.firstRunStartedAtMs + settings.budgetWaitTimeoutMs;
}

async function conclude(context: FollowUpContext): Promise<void> {
  const { settings, state } = context;
  // It may have been said during the last read or ask.
  if (state.operatorWord === 'sent') return goOn(context, 'assumed');
  const policy = state.operatorWord === 'notSent' ? 'resend' : settings.onUnknownDelivery;
  delete state.operatorWord;
  switch (policy) {
    case 'assumeSent':
      return goOn(context, 'assumed');
    case 'resend':
      state.earlierSendUnknown = true;
      context.beginNextSend();
      state.phase = 'asking';
      delete state.grantedAtMs;
      delete state.reconcileUntilMs;
      return;
    case 'fail': {
      const message = 'It cannot be told whether the message was delivered';
      throw await endSent(context, FailureType.DeliveryUnknown, message, { delivered: 'unknown' }, 'unknown');
    }
  }
}

function goOn(context: FollowUpContext, delivery: 'inferred' | 'assumed'): void {
  const { state } = context;
  state.delivery = delivery;
  state.sentAtMs = state.grantedAtMs ?? Date.now();
  state.phase = 'polling';
  delete state.askAgainFirst;
  delete state.operatorWord;
}
