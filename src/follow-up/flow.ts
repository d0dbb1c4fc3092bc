import { hash64 } from '../common/index.js';
import {
  type DeliveryDecision,
  endOf,
  type FollowUpProgress,
  type FollowUpResult,
  type FollowUpSettings,
} from '../contract/index.js';
import { describeEarlier, fingerprint, type Granted, type Waiting } from '../protocol/index.js';
import { deliver, type Delivery, UndeliveredSends } from './deliver.js';
import { Display } from './display.js';
import { Failed } from './failed.js';
import { SlotWait } from './get-slot.js';
import type { FollowUpPort } from './port.js';
import { Reconciliation } from './reconcile.js';
import { Doubt, type StepContext } from './step-context.js';
import { Waits } from './waits.js';
import { watchTurn } from './watch-turn.js';

/** Shortest time for which a reset run asks about its predecessor's send. */
const SHORTEST_ASK_MS = 60_000;
/** Further uses of `pollNow` in a row are ignored, so that the watch lasts long enough to confirm an end. */
const POLLS_IN_A_ROW = 5;
/** With the default `poll`, a watch makes three reads in this time. Two that are ten seconds apart confirm an end. */
const LONGEST_CONFIRMATION_MS = 40_000;

/**
 * Runs one follow-up: waits for the job and a slot, sends, and watches the job until the message's turn ends.
 *
 * A grant and a watch belong to one run. After a reset, the new run repeats what its predecessor did last. The activity
 * then sees that the grant or the watch is not its own and does nothing: its result is `foreign`. The run asks the budget,
 * which replies with the earlier send and its verdict on it.
 */
export class FollowUp {
  readonly #context: StepContext;
  readonly #slotWait: SlotWait;
  readonly #reconciliation: Reconciliation;
  /**
   * The time until which the job may still show its previous turn. Set once the message may have been delivered. If this
   * run fails, the budget keeps the job's turn until that time.
   */
  #turnUntilMs: number | undefined;
  /** Bounds how often `pollNow` restarts the watch for an end: each use adds the time that a watch needs to confirm one. */
  #watchedUntilMs = 0;

  constructor(
    readonly settings: FollowUpSettings,
    private readonly port: FollowUpPort,
  ) {
    const waits = new Waits(port, settings.budgetWaitTimeoutMs);
    this.#context = { settings, port, display: new Display(settings, port), waits, doubt: new Doubt(port) };
    this.#slotWait = new SlotWait(this.#context);
    this.#reconciliation = new Reconciliation(this.#context);
  }

  /** Receives a grant that was not immediate, or a new reason to wait. */
  receive(reply: Granted | Waiting): void {
    this.#slotWait.receive(reply);
  }

  cancel(): void {
    const { waits } = this.#context;
    waits.isCancelled = true;
    waits.interrupt();
  }

  /**
   * Reads the job or asks the budget now. This restarts a watch, which then forgets what it has seen, so only some are
   * accepted.
   */
  pollNow(): void {
    const { display, waits } = this.#context;
    this.wake();
    if (display.state !== 'polling') return waits.interrupt();
    const nowMs = this.port.nowMs();
    const neededMs = LONGEST_CONFIRMATION_MS + 2 * this.settings.prLinkGraceMs;
    const untilMs = Math.max(this.#watchedUntilMs, nowMs) + neededMs;
    if (untilMs > nowMs + POLLS_IN_A_ROW * neededMs) return;
    this.#watchedUntilMs = untilMs;
    // The watch may have ended in this very task. If the task is undone, the watch must end again instead of being stopped.
    void this.port.nextTask().then(() => waits.interrupt());
  }

  /** Makes a follow-up in line ask again, because the budget may have been replaced. */
  wake(): void {
    this.#slotWait.wake();
  }

  /** Why an operator's decision about the delivery is refused; `undefined` if it is accepted. */
  issueWithDecision(decision: unknown): string | undefined {
    return this.#reconciliation.issueWithDecision(decision);
  }

  /** Applies an operator's decision whether the message was delivered. */
  resolveDelivery(decision: DeliveryDecision): void {
    this.#reconciliation.decide(decision);
  }

  progress(): FollowUpProgress {
    return this.#context.display.progress();
  }

  /**
   * Runs the follow-up to its end.
   *
   * @throws Failed
   */
  async run(): Promise<FollowUpResult> {
    const { display } = this.#context;
    try {
      let result: FollowUpResult | undefined;
      while (!result) {
        const delivery = await this.#untilDelivered();
        const end = await watchTurn(this.#context, delivery);
        if (end === 'foreign') this.#allowTimeToAsk(delivery);
        else result = end;
      }
      await this.port.reportToBudget({ kind: 'end', jobAtEnd: fingerprint(result.job) });
      display.show(endOf(result));
      return result;
    } catch (error) {
      if (!(error instanceof Failed)) throw error;
      const failed = await this.#checked(error);
      // A result comes from an activity, whose end is in the history. A failure may come from the time or a signal alone.
      await this.port.nextTask();
      const turn = this.#turnUntilMs === undefined ? {} : { turnUntilMs: this.#turnUntilMs };
      await this.port.reportToBudget({ kind: 'end', ...turn });
      display.show(endOf(failed));
      throw failed;
    }
  }

  /** Gets a slot, delivers the message and reconciles, again and again until the message is delivered. */
  async #untilDelivered(): Promise<Delivery> {
    const undelivered = new UndeliveredSends(this.#context);
    for (;;) {
      const waitEnd = await this.#slotWait.wait();
      const attempt = await deliver(this.#context, waitEnd, undelivered);
      if (attempt === 'foreign') {
        this.#allowTimeToAsk();
        continue;
      }
      const { result, delivery } = attempt;
      if (delivery) {
        this.#turnUntilMs = delivery.arrivedByMs + this.settings.settleTimeMs;
        const isCertain = delivery.kind === 'sent';
        const found = isCertain ? delivery : await this.#reconciliation.reconcile(delivery, result.message);
        if (found === 'foreign') {
          this.#allowTimeToAsk(delivery);
          continue;
        }
        if (found) return found;
      }
      this.#slotWait.beginNextSend();
      await undelivered.waitForNext(result);
    }
  }

  /**
   * A run whose predecessor had the grant or the job's turn asks the budget what became of it, also after
   * `budgetWaitTimeout`. If the message was sent, it asks for as long as it would watch.
   */
  #allowTimeToAsk(delivery?: Delivery): void {
    const watchedUntilMs = delivery ? delivery.sentAtMs + this.settings.jobTimeoutMs : 0;
    this.#context.waits.extendPatience(Math.max(watchedUntilMs, this.port.nowMs() + SHORTEST_ASK_MS));
  }

  /**
   * Before a follow-up whose budget has not replied yet reports `delivered: "no"`, it asks the budget: an earlier run may
   * have sent the message, if the key was used before.
   */
  async #checked(error: Failed): Promise<Failed> {
    if (error.delivered !== 'no' || this.#slotWait.hasReply) return error;
    const delivered = (await this.port.wasDelivered(hash64(this.settings.prompt))) ?? 'unknown';
    if (delivered === 'no') return error;
    const { type, message, details } = error;
    return new Failed(type, message + describeEarlier(delivered), delivered, details);
  }
}
