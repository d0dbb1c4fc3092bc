import { FailureType, formatDuration, type WaitReason } from '../contract/index.js';
import { handleOutcome } from './ask.js';
import { isAtWork, showsDelivery } from './belief.js';
import { endSent } from './endings.js';
import type { FollowUpFlow } from './flow.js';
import { jittered, nextInterval } from './look.js';
import type { Ending, Steps } from './port.js';
import { newAsking, newWatching, type Phase, type Reconciling } from './state.js';

/**
 * The outcome of a send is unknown. Reads the job until no byte can arrive any more and the settle time has passed.
 * With evidence of delivery the follow-up starts watching. Without evidence, `onUnknownDelivery` or an operator
 * decides.
 */
export function* reconcile(flow: FollowUpFlow, reconciling: Reconciling): Steps<Phase | Ending> {
  const { port, state } = flow;
  if (flow.isCancelled) {
    const message = 'Cancelled while it was not known whether the message was delivered';
    return yield* endSent(flow, { type: FailureType.Cancelled, message }, UNKNOWN);
  }
  if (state.view.state !== 'reconciling') flow.show({ state: 'reconciling', nextLookAtMs: null });
  if (reconciling.operatorWord === 'sent') return goOn(reconciling, 'assumed');
  const read = yield* flow.getJob('reconcile');
  state.polls += 1;
  if (read.kind === 'job' && showsDelivery(read.job, { baseline: reconciling.baseline, lastTurn: state.lastTurn })) {
    return goOn(reconciling, 'inferred', isAtWork(read.job));
  }
  const leftMs = reconciling.untilMs - port.nowMs();
  if (leftMs > 0) {
    yield* lookLater(flow, reconciling, leftMs);
    return reconciling;
  }
  return yield* reconciling.askAgainFirst ? askForOutcome(flow, reconciling) : conclude(flow, reconciling);
}

/**
 * When a silent budget is back, follow-ups are woken by their state `blocked`. A follow-up in doubt has another state,
 * so it has to ask by itself.
 */
const LONGEST_ASK_PAUSE_MS = 5 * 60_000;

const UNKNOWN = { delivered: 'unknown', outcome: 'unknown' } as const;

function* lookLater(flow: FollowUpFlow, reconciling: Reconciling, leftMs: number): Steps<void> {
  const { port, settings, state } = flow;
  const waitMs = Math.min(leftMs, jittered(reconciling.intervalMs, port.random()));
  reconciling.intervalMs = nextInterval(reconciling.intervalMs, settings.poll);
  flow.show({ state: 'reconciling', nextLookAtMs: port.nowMs() + waitMs });
  const summary = `delivery unknown; look again in ${formatDuration(waitMs)}`;
  yield* flow.sleep(waitMs, summary, () => state.pollNow || reconciling.operatorWord === 'sent');
  state.pollNow = false;
}

/** By now the granted attempt is over, and it may have settled. */
function* askForOutcome(flow: FollowUpFlow, reconciling: Reconciling): Steps<Phase | Ending> {
  const answer = yield* flow.send('hold');
  if (answer.kind === 'outcome' && answer.outcome !== 'unknown') {
    // The baseline stays, because the job may already show the effect of the message.
    return yield* handleOutcome(flow, newAsking(reconciling.baseline, flow.settings), answer);
  }
  if (answer.kind === 'stale' || (answer.kind === 'wait' && mayAnswerYet(flow, answer))) {
    const waitMs = answer.kind === 'wait' ? Math.min(answer.waitMs, LONGEST_ASK_PAUSE_MS) : flow.staleBackoffMs();
    yield* flow.sleep(waitMs, 'ask once more', () => flow.isWoken || reconciling.operatorWord === 'sent');
    return reconciling;
  }
  reconciling.askAgainFirst = false;
  return yield* conclude(flow, reconciling);
}

/**
 * Whether to ask again after an answer that was not the budget's own. A silent budget is waited for, but not forever.
 */
function mayAnswerYet(
  { port, settings, state }: FollowUpFlow,
  { proven, reason }: { proven: boolean; reason: WaitReason },
): boolean {
  if (proven || reason === 'gate-stopped') return false;
  return reason !== 'budget-silent' || port.nowMs() < state.firstRunStartedAtMs + settings.budgetWaitTimeoutMs;
}

function* conclude(flow: FollowUpFlow, reconciling: Reconciling): Steps<Phase | Ending> {
  const { settings, state } = flow;
  const { baseline, operatorWord } = reconciling;
  // The operator may have said so during the last read or ask.
  if (operatorWord === 'sent') return goOn(reconciling, 'assumed');
  switch (operatorWord === 'notSent' ? 'resend' : settings.onUnknownDelivery) {
    case 'assumeSent':
      return goOn(reconciling, 'assumed');
    case 'resend':
      state.earlierSendUnknown = true;
      flow.beginNextSend();
      return newAsking(baseline, settings);
    case 'fail': {
      const message = 'Nobody can tell whether the message was delivered';
      return yield* endSent(flow, { type: FailureType.DeliveryUnknown, message }, UNKNOWN);
    }
  }
}

function goOn(
  { baseline, grantedAtMs, intervalMs }: Reconciling,
  delivery: 'inferred' | 'assumed',
  observedActive = false,
): Phase {
  return newWatching(baseline, { delivery, sentAtMs: grantedAtMs, intervalMs, observedActive });
}
