import type { FollowUpSettings } from '../src/contract/index.js';
import type { BudgetWord } from '../src/contract/protocol.js';
import { FollowUpFlow } from '../src/follow-up/flow.js';
import type {
  FollowUpPort,
  GetJobResult,
  SendFollowUpInput,
  SendFollowUpResult,
  WatchEnd,
} from '../src/follow-up/port.js';
import { run } from '../src/follow-up/run.js';
import { newFollowUpState } from '../src/follow-up/state.js';
import type { ActivityServer } from './activity.js';
import type { Ending, FollowUpRecord } from './follow-up-record.js';
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

/** One run of the `followUp` workflow: the product's flow, in simulated time. */
export class FollowUpRun {
  readonly process: Process;
  readonly #surroundings: FollowUpSurroundings;
  readonly #record: FollowUpRecord;
  readonly #flow: FollowUpFlow;
  #activityCount = 0;
  #watch: Later<WatchEnd> | undefined;
  /** Checks whether the current wait is over. */
  #onChange: () => void = () => undefined;

  constructor(
    surroundings: FollowUpSurroundings,
    record: FollowUpRecord,
    readonly startedAtMs: number,
    isFirstRun: boolean,
  ) {
    this.#surroundings = surroundings;
    this.#record = record;
    this.process = new Process(surroundings.world.timeline);
    const settings = settingsOf(record, surroundings.world);
    const state = newFollowUpState({ startedAtMs, isFirstRun, settings });
    this.#flow = new FollowUpFlow(settings, state, this.#port(isFirstRun));
  }

  /** The budget's signal. */
  wake(): void {
    this.#flow.wake();
    this.#onChange();
  }

  cancel(): void {
    this.#flow.cancel();
    this.#onChange();
  }

  /** The run from its start to its end. */
  *steps(): Steps<Ending> {
    const ending = yield* run(this.#flow);
    switch (ending.kind) {
      case 'result': {
        const { delivery } = ending.result;
        if (delivery !== 'sent') this.#countDoubt();
        return { result: 'completed', delivered: delivery === 'assumed' ? 'unknown' : 'yes' };
      }
      case 'failure':
        if (ending.type === 'DeliveryUnknown') this.#countDoubt();
        return { result: ending.type, delivered: ending.details.delivered };
      case 'continueAsNew':
        throw new Error('no simulated run is told to continue as new');
    }
  }

  #port(isFirstRun: boolean): FollowUpPort {
    const { clock, service, world } = this.#surroundings;
    return {
      workflowId: this.#record.workflowId,
      replacesRun: !isFirstRun,
      nowMs: () => clock.nowMs(),
      random: () => world.chance.between(0, 1),
      continueAsNewIsDue: () => false,
      sleep: (ms, _summary, until) => this.#sleep(ms, until),
      getJob: () => this.#getJob(),
      startWatch: (order) => {
        this.#watch = this.#surroundings.activities.watch(order, {
          read: () => service.getJob(this.#record),
          isOpen: () => !this.process.dead && !this.#record.ending,
        });
      },
      awaitWatch: (until) => this.#awaitWatch(until),
      stopWatch: () => this.#stopWatch(),
      send: (input) => this.#send(input),
      tell: (word) => this.#tell(word),
      show: () => undefined,
    };
  }

  *#sleep(ms: number, until: () => boolean): Steps<void> {
    const over = new Later<undefined>(this.#surroundings.world.timeline).expire(ms, undefined);
    this.#onChange = () => {
      if (until()) over.set(undefined);
    };
    this.#onChange();
    yield* over.get();
  }

  *#awaitWatch(until: () => boolean): Steps<WatchEnd | undefined> {
    const watch = this.#watch;
    if (!watch) return undefined;
    const first = new Later<WatchEnd | undefined>(this.#surroundings.world.timeline);
    watch.whenSet((end) => first.set(end));
    this.#onChange = () => {
      if (until()) first.set(undefined);
    };
    this.#onChange();
    return yield* first.get();
  }

  /** A watch that is between two looks ends at once. */
  *#stopWatch(): Steps<WatchEnd> {
    const watch = this.#watch ?? new Later<WatchEnd>(this.#surroundings.world.timeline);
    watch.set({ kind: 'stopped', looks: 0 });
    return yield* watch.get();
  }

  *#getJob(): Steps<GetJobResult> {
    const { world, service } = this.#surroundings;
    yield* sleep(world.timeline, world.chance.between(5, 50));
    return service.getJob(this.#record);
  }

  *#send(input: SendFollowUpInput): Steps<SendFollowUpResult> {
    const { activities, world } = this.#surroundings;
    this.#record.hasAsked = true;
    const activity = activities.schedule(
      { ...input, followUp: this.#record },
      {
        activityId: String(++this.#activityCount),
        isOpen: () => !this.process.dead && !this.#record.ending,
      },
    );
    const result = yield* world.broken.has('awaitCancel') ? this.#orCancelled(activity) : activity.get();
    this.#noteExpectation(result);
    if (world.broken.has('unknown') && result.kind === 'outcome' && result.outcome === 'unknown') {
      return { ...result, outcome: 'notSent' };
    }
    // Leaving by an ask tells the budget too.
    if (result.kind === 'closed') this.#record.hasToldEnd = true;
    return result;
  }

  /** With the rule disabled, a cancelled follow-up assumes that its send under way comes to nothing. */
  *#orCancelled(activity: Later<SendFollowUpResult>): Steps<SendFollowUpResult> {
    const first = new Later<SendFollowUpResult>(this.#surroundings.world.timeline);
    activity.whenSet((value) => first.set(value));
    this.#onChange = () => {
      if (this.#flow.isCancelled) first.set({ kind: 'closed', proven: true });
    };
    this.#onChange();
    return yield* first.get();
  }

  *#tell(word: BudgetWord): Steps<boolean> {
    const { network, world } = this.#surroundings;
    const isEnd = word.kind !== 'keyRead';
    if (isEnd && world.broken.has('finish')) return true;
    yield* network.tell(word).get();
    if (isEnd) this.#record.hasToldEnd = true;
    return true;
  }

  #noteExpectation(result: SendFollowUpResult): void {
    if (result.kind !== 'wait' || result.reason !== 'slot' || result.etaMs === null) return;
    this.#record.expectedGrantAtMs ??= this.#surroundings.world.timeline.nowMs + result.etaMs;
  }

  #countDoubt(): void {
    const { counts } = this.#surroundings.world;
    counts.unknown += 1;
    if (!this.#record.beganPost) counts.falseUnknown += 1;
  }
}

/** What the caller asked for. The waits are short, like everything in this world. */
function settingsOf(record: FollowUpRecord, { broken, sizes }: World): FollowUpSettings {
  return {
    projectId: 'p',
    jobId: record.jobId,
    prompt: 'x',
    lane: record.lane,
    onUnknownDelivery: record.onUnknownDelivery,
    whenActive: 'wait',
    poll: { initialIntervalMs: 1_000, maxIntervalMs: 10_000, backoffCoefficient: 1.5 },
    settleTimeMs: broken.has('belief') ? 0 : sizes.settleTimeMs,
    jobTimeoutMs: 86_400_000,
    budgetWaitTimeoutMs: record.budgetWaitTimeoutMs,
  };
}
