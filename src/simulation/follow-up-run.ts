import type { SendFollowUpResult } from '../activities/send-follow-up.js';
import type { Delivered, FailureType, SendOutcome } from '../contract/index.js';
import { backoffMs, jittered, nextInterval } from '../follow-up/intervals.js';
import { FollowUpContext } from './follow-up-context.js';
import type { Ending } from './follow-up-record.js';
import { FIRST_LOOK_MS, LOOKS } from './follow-up-state.js';
import type { Steps } from './process.js';

/** As in the product's workflow. */
const STALE_RETRY_MS = 200;
const MOST_STALE_DOUBLINGS = 8;
const HOLD_EVERY_MS = 10 * 60_000;
const LAST_ASK_TRIES = 5;

type Outcome = Extract<SendFollowUpResult, { kind: 'outcome' }>;
type Wait = Extract<SendFollowUpResult, { kind: 'wait' }>;
/** `undefined`: the follow-up goes on in its current phase. */
type Step = Steps<Ending | undefined>;

/** One run of the `followUp` workflow: asks, sends, reconciles, polls, decided as the product's workflow does. */
export class FollowUpRun extends FollowUpContext {
  /** The run from its begin to its end. */
  *steps(): Steps<Ending> {
    for (;;) {
      const { phase } = this.state;
      const ending = yield* phase === 'asking'
        ? this.#ask()
        : phase === 'reconciling'
          ? this.#reconcile()
          : this.#poll();
      if (ending) return ending;
    }
  }

  *#ask(): Step {
    const { clock, world } = this.surroundings;
    const state = this.state;
    if (this.cancelled) return yield* this.#giveUp('Cancelled');
    if (this.budgetWaitLeftMs() <= 0) return yield* this.#giveUp('BudgetWaitTimeout');
    if (!(yield* this.getJob())) return yield* this.pause(backoffMs(++state.failures));
    state.failures = 0;
    const hold = world.timeline.nowMs < this.record.jobAtWorkUntilMs;
    if (!hold) state.intervalMs = FIRST_LOOK_MS;
    if (hold && clock.nowMs() - state.heldAtMs < HOLD_EVERY_MS && !this.woken) return yield* this.waitForJob();
    const answer = yield* this.send(hold ? 'hold' : undefined);
    if (answer === 'abandoned') return yield* this.#endUnsent('Cancelled', true);
    if (answer.kind !== 'stale') state.staleAsks = 0;
    if (hold && answer.kind === 'wait') {
      state.heldAtMs = clock.nowMs();
      return yield* this.waitForJob();
    }
    return yield* this.#handle(answer);
  }

  *#handle(answer: SendFollowUpResult): Step {
    const state = this.state;
    switch (answer.kind) {
      case 'outcome':
        return yield* this.#handleOutcome(answer);
      case 'wait':
        this.#noteExpectation(answer);
        return yield* this.pause(answer.waitMs, () => this.woken);
      case 'alreadyGranted': {
        const nowMs = this.surroundings.clock.nowMs();
        state.grantedAtMs = answer.grantedAtMs ?? nowMs;
        const arrivedMs = nowMs + answer.leaseLeftMs + answer.drainLeftMs;
        state.reconcileUntilMs = Math.max(arrivedMs, state.grantedAtMs + this.surroundings.world.sizes.settleTimeMs);
        state.askAgainFirst = true;
        state.phase = 'reconciling';
        return undefined;
      }
      case 'stale':
        return yield* this.sleep(STALE_RETRY_MS * 2 ** Math.min(state.staleAsks++, MOST_STALE_DOUBLINGS));
      case 'closed':
        return yield* this.#endUnsent('Closed', true);
    }
  }

  *#handleOutcome({ outcome, grantedAtMs, mayArriveForMs }: Outcome): Step {
    const { clock, world } = this.surroundings;
    const state = this.state;
    if (grantedAtMs !== undefined) state.grantedAtMs = grantedAtMs;
    switch (outcome) {
      case 'sent':
        state.delivery = 'sent';
        state.phase = 'polling';
        return undefined;
      case 'unknown':
        state.reconcileUntilMs = Math.max(
          clock.nowMs() + mayArriveForMs,
          (state.grantedAtMs ?? clock.nowMs()) + world.sizes.settleTimeMs,
        );
        state.phase = 'reconciling';
        return undefined;
      case 'rejected':
        return yield* this.#endSent('MessageRejected', state.earlierSendUnknown ? 'unknown' : 'no', 'rejected');
      case 'notSent':
      case 'limited':
      case 'unauthorized':
        this.beginNextSend();
        state.notSentInARow = outcome === 'notSent' ? state.notSentInARow + 1 : 0;
        if (outcome !== 'notSent') return undefined;
        return yield* this.pause(jittered(backoffMs(state.notSentInARow), world.chance.between(0, 1)));
    }
  }

  *#reconcile(): Step {
    const { clock, service, world } = this.surroundings;
    const state = this.state;
    state.intervalMs = FIRST_LOOK_MS;
    for (;;) {
      if (this.cancelled) return yield* this.#endSent('Cancelled', 'unknown', 'unknown');
      const isRead = yield* this.getJob();
      if (isRead && this.record.showsDelivery && service.accepted(this.record.workflowId) > 0)
        return this.#goOn('inferred');
      const leftMs = state.reconcileUntilMs - clock.nowMs();
      if (leftMs <= 0) break;
      yield* this.sleep(Math.min(leftMs, jittered(state.intervalMs, world.chance.between(0, 1))));
      state.intervalMs = nextInterval(state.intervalMs, LOOKS);
    }
    return yield* state.askAgainFirst ? this.#askForOutcome() : this.#conclude();
  }

  *#askForOutcome(): Step {
    const state = this.state;
    const answer = yield* this.send('hold');
    if (answer === 'abandoned') return yield* this.#endSent('Cancelled', 'unknown', 'unknown');
    if (answer.kind === 'outcome' && answer.outcome !== 'unknown') {
      state.askAgainFirst = false;
      state.phase = 'asking';
      return yield* this.#handleOutcome(answer);
    }
    if (answer.kind === 'stale' || (answer.kind === 'wait' && !answer.proven && answer.reason !== 'gate-stopped')) {
      return yield* this.sleep(answer.kind === 'wait' ? answer.waitMs : STALE_RETRY_MS);
    }
    state.askAgainFirst = false;
    return yield* this.#conclude();
  }

  *#conclude(): Step {
    const state = this.state;
    switch (this.record.onUnknownDelivery) {
      case 'assumeSent':
        return this.#goOn('assumed');
      case 'resend':
        this.#countDoubt();
        state.earlierSendUnknown = true;
        this.beginNextSend();
        state.phase = 'asking';
        delete state.grantedAtMs;
        return undefined;
      case 'fail':
        this.#countDoubt();
        return yield* this.#endSent('DeliveryUnknown', 'unknown', 'unknown');
    }
  }

  #goOn(delivery: 'inferred' | 'assumed'): undefined {
    this.#countDoubt();
    this.state.delivery = delivery;
    this.state.phase = 'polling';
    this.state.askAgainFirst = false;
  }

  *#poll(): Step {
    const { delivery } = this.state;
    const { min, max } = this.record.turnMs;
    const outcome: SendOutcome = delivery === 'sent' ? 'sent' : 'unknown';
    const delivered: Delivered = delivery === 'assumed' ? 'unknown' : 'yes';
    yield* this.sleep(this.surroundings.world.chance.between(min, max));
    return yield* this.#endSent(this.cancelled ? 'Cancelled' : 'completed', delivered, outcome);
  }

  /** Ends an unsent follow-up, after proof that it is one. */
  *#giveUp(result: FailureType): Step {
    const state = this.state;
    for (let tries = 0; !this.isProvenUnsent() && tries < LAST_ASK_TRIES; tries++) {
      const answer = yield* this.send('withdraw');
      if (answer === 'abandoned') return yield* this.#endUnsent('Cancelled', true);
      if (answer.kind === 'outcome' || answer.kind === 'alreadyGranted') {
        const ending = yield* this.#handle(answer);
        if (ending || state.phase !== 'asking') return ending;
      } else if (answer.kind === 'wait' && answer.reason === 'gate-stopped') {
        break;
      } else if (answer.kind === 'closed') {
        state.knownToGate = false;
      } else if (!this.isProvenUnsent()) {
        yield* this.sleep(answer.kind === 'wait' ? answer.waitMs : STALE_RETRY_MS);
      }
    }
    return yield* this.#endUnsent(result, this.isProvenUnsent());
  }

  *#endUnsent(result: FailureType, proven: boolean): Step {
    if (this.state.knownToGate) yield* this.leave();
    return { result, delivered: proven && !this.state.earlierSendUnknown ? 'no' : 'unknown' };
  }

  *#endSent(result: Ending['result'], delivered: Delivered, outcome: SendOutcome): Step {
    yield* this.leave(outcome);
    return { result, delivered };
  }

  #noteExpectation({ reason, etaMs }: Wait): void {
    if (reason !== 'slot' || etaMs === null) return;
    this.record.expectedGrantAtMs ??= this.surroundings.world.timeline.nowMs + etaMs;
  }

  #countDoubt(): void {
    const { counts } = this.surroundings.world;
    counts.unknown += 1;
    if (!this.record.beganPost) counts.falseUnknown += 1;
  }
}
