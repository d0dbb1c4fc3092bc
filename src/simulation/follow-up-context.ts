import type { SendFollowUpResult } from '../activities/send-follow-up.js';
import type { SendOutcome } from '../contract/index.js';
import { jittered, nextInterval } from '../follow-up/intervals.js';
import type { ActivityServer } from './activity.js';
import type { FollowUpRecord } from './follow-up-record.js';
import { LOOKS, newRunState, type FollowUpRunState } from './follow-up-state.js';
import type { Network } from './network.js';
import { Later, Process, sleep, type Steps } from './process.js';
import type { Service } from './service.js';
import type { ServerClock, World } from './world.js';

/** Where follow-ups run. */
export interface FollowUpSurroundings {
  world: World;
  clock: ServerClock;
  network: Network;
  service: Service;
  activities: ActivityServer;
}

/** What the steps of one run of a follow-up share: its state, its waits, its sends, its word to the gate. */
export class FollowUpContext {
  readonly process: Process;
  cancelled = false;
  protected woken = false;
  #activityCount = 0;
  /** Looks whether the wait under way is over. */
  #onChange: () => void = () => undefined;
  protected readonly state: FollowUpRunState;

  constructor(
    readonly surroundings: FollowUpSurroundings,
    readonly record: FollowUpRecord,
    readonly startedAtMs: number,
    readonly isFirstRun: boolean,
  ) {
    this.process = new Process(surroundings.world.timeline);
    this.state = newRunState(isFirstRun);
  }

  /** The gate's signal. */
  wake(): void {
    this.woken = true;
    this.#onChange();
  }

  cancel(): void {
    this.cancelled = true;
    this.#onChange();
  }

  protected *leave(outcome?: SendOutcome): Steps<void> {
    const { workflowId, jobId } = this.record;
    const { sendNumber } = this.state;
    yield* this.surroundings.network.leave({ workflowId, jobId, sendNumber, ...(outcome && { outcome }) });
  }

  /** `abandoned`: with the rule taken out, a cancelled follow-up does not await the end of its send. */
  protected *send(how?: 'hold' | 'withdraw'): Steps<SendFollowUpResult | 'abandoned'> {
    const { activities, world } = this.surroundings;
    const state = this.state;
    this.woken = false;
    state.provenNotSent = false;
    state.knownToGate = true;
    const input = {
      followUp: this.record,
      sendNumber: state.sendNumber,
      hold: how === 'hold',
      withdraw: how === 'withdraw',
      grantedBefore: state.grantedBefore ?? (this.isFirstRun ? undefined : ('perhaps' as const)),
      ledgerSinceMs: state.ledgerSinceMs,
      firstRunStartedAtMs: this.startedAtMs,
    };
    const activityId = String(++this.#activityCount);
    const activity = activities.schedule(input, {
      activityId,
      isOpen: () => !this.process.dead && !this.record.ending,
    });
    const result = world.broken.has('awaitCancel') ? yield* this.#orCancelled(activity) : yield* activity.get();
    if (result === 'abandoned') return result;
    if (result.kind !== 'outcome') {
      if (result.ledgerSinceMs !== undefined) state.ledgerSinceMs = result.ledgerSinceMs;
      if (result.grantedBefore) state.grantedBefore = result.grantedBefore;
    }
    const hasPlace = result.kind === 'wait' && result.proven && result.reason !== 'queue-full';
    if (hasPlace) delete state.grantedBefore;
    state.provenNotSent = result.kind === 'closed' || hasPlace;
    return result;
  }

  /** The send before is over, and this follow-up is to be sent again. */
  protected beginNextSend(): void {
    this.state.sendNumber += 1;
    delete this.state.grantedBefore;
  }

  *#orCancelled<T>(later: Later<T>): Steps<T | 'abandoned'> {
    const first = new Later<T | 'abandoned'>(this.surroundings.world.timeline);
    later.whenSet((value) => first.set(value));
    this.#onChange = () => {
      if (this.cancelled) first.set('abandoned');
    };
    this.#onChange();
    return yield* first.get();
  }

  protected isProvenUnsent(): boolean {
    return this.state.provenNotSent;
  }

  /** Reads the job; answers whether the key was taken. The gate is told where that has changed. */
  protected *getJob(): Steps<boolean> {
    const { world, service, network } = this.surroundings;
    yield* sleep(world.timeline, world.chance.between(5, 50));
    const isRefused = service.refusesRead();
    if (isRefused !== this.state.keyIsRefused) network.keyRead(isRefused);
    this.state.keyIsRefused = isRefused;
    return !isRefused;
  }

  /** Sleeps on a durable timer, or until `until` holds, or a cancel arrives. */
  protected *sleep(ms: number, until: () => boolean = () => false): Steps<undefined> {
    const over = new Later<undefined>(this.surroundings.world.timeline).expire(Math.max(1, Math.round(ms)), undefined);
    this.#onChange = () => {
      if (this.cancelled || until()) over.set(undefined);
    };
    this.#onChange();
    return yield* over.get();
  }

  /** Sleeps, but not beyond the time that the follow-up may wait for its budget. */
  protected *pause(ms: number, until?: () => boolean): Steps<undefined> {
    return yield* this.sleep(Math.min(ms, this.budgetWaitLeftMs()), until);
  }

  protected *waitForJob(): Steps<undefined> {
    const state = this.state;
    const waitMs = jittered(state.intervalMs, this.surroundings.world.chance.between(0, 1));
    state.intervalMs = nextInterval(state.intervalMs, LOOKS);
    this.woken = false;
    return yield* this.pause(waitMs, () => this.woken);
  }

  protected budgetWaitLeftMs(): number {
    return this.startedAtMs + this.record.budgetWaitTimeoutMs - this.surroundings.clock.nowMs();
  }
}
