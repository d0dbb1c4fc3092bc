import { iso } from '../common/index.js';
import { type DeliveryDecision, deliveryDecisions, FailureType } from '../contract/index.js';
import { isAtWork } from '../protocol/index.js';
import type { Delivery } from './deliver.js';
import { Failed } from './failed.js';
import type { StepContext } from './step-context.js';
import { watchUntil } from './watch-until.js';

/** The step that finds out whether the message was delivered. */
export class Reconciliation {
  /** Whether an operator may decide, once, whether the message was delivered. */
  #isDecisionDue = false;

  constructor(private readonly context: StepContext) {}

  /** Why an operator's decision about the delivery is refused; `undefined` if it is accepted. */
  issueWithDecision(decision: unknown): string | undefined {
    if (!deliveryDecisions.some((known) => known === decision)) {
      return `resolveDelivery: must be ${deliveryDecisions.join(' or ')} (given ${JSON.stringify(decision)})`;
    }
    const { state } = this.context.display;
    if (state !== 'reconciling') return `resolveDelivery: the follow-up must be reconciling (it is ${state})`;
    return this.#isDecisionDue ? undefined : 'resolveDelivery: the delivery has already been decided';
  }

  /** Applies an operator's decision whether the message was delivered. */
  decide(decision: DeliveryDecision): void {
    const { waits } = this.context;
    waits.decision = decision;
    this.#isDecisionDue = false;
    waits.interrupt();
  }

  /**
   * Returns the delivery, `foreign` if another run has the turn, or `undefined` if the message is to be sent again.
   *
   * @param why the last error, if the send had one
   * @throws Failed
   */
  async reconcile(possible: Delivery, why: string | undefined): Promise<Delivery | 'foreign' | undefined> {
    const { settings, port, display, waits, doubt } = this.context;
    display.noteError(why);
    const { baseline, arrivedByMs, runId } = possible;
    const deadlineMs = arrivedByMs + settings.settleTimeMs;
    display.facts.waitsUntil = iso(deadlineMs);
    const goal = { until: 'evidence', baseline, arrivedByMs, runId, deadlineMs } as const;
    const isOver = () => waits.decision !== undefined;
    this.#isDecisionDue = true;
    const end = await watchUntil(this.context, { ...goal, standing: { state: 'reconciling' }, isOver });
    this.#isDecisionDue = false;
    if (end?.kind === 'foreign') return 'foreign';
    const { decision } = waits;
    waits.decision = undefined;
    if (end?.kind === 'evidence') {
      return { ...possible, arrivedByMs: Math.min(arrivedByMs, port.nowMs()), observedActive: isAtWork(end.job) };
    }
    if (waits.isCancelled) {
      throw new Failed(FailureType.Cancelled, 'Cancelled while the delivery was unknown', 'unknown');
    }
    const { onUnknownDelivery, budgetWaitTimeoutMs } = settings;
    if (decision === 'sent' || (!decision && onUnknownDelivery === 'assumeSent'))
      return { ...possible, kind: 'assumed' };
    if (decision === 'notSent' || (onUnknownDelivery === 'resend' && !doubt.mayHaveResent)) {
      display.facts.earlierSendUnknown = true;
      // The wait for the first send may have used up the time.
      if (decision) waits.extendPatience(port.nowMs() + budgetWaitTimeoutMs);
      doubt.raise({ mayHaveResent: decision === undefined });
      await port.nextTask();
      return undefined;
    }
    const message = `It is unknown whether the message was delivered${why === undefined ? '' : `: ${why}`}`;
    throw new Failed(FailureType.DeliveryUnknown, message, 'unknown');
  }
}
