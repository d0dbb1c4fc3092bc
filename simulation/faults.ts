import type { Chance } from './chance.js';
import { HEALED_AT_MS } from './sizes.js';
import type { Timeline } from './timeline.js';

/** The mix of faults of one seed. Each kind occurs only in some seeds, at a rate of its own; 0 if it does not. */
export interface FaultRates {
  /** A worker process dies. */
  crash: number;
  /** A process freezes while its clocks run on: a zombie. */
  pause: number;
  /** A machine sleeps, and its monotonic clock stops too. */
  suspend: number;
  /** A request, an answer or a completion is lost. */
  lost: number;
  slow: number;
  /** An ask is released before it is answered. The budget may hear it, and grant it, later. */
  letGo: number;
  /** A message is applied again up to 20 s later, as an update may be after continue-as-new (temporal#6375). */
  duplicated: number;
  /** A POST fails: before it starts, on its way, or on the way back. */
  post: number;
  /** Bytes arrive after the sender has given up. */
  lateBytes: number;
  cancel: number;
  terminate: number;
  workflowReset: number;
  activityReset: number;
  settleLost: number;
  /** A follow-up gives up after a while. */
  giveUp: number;
  /** The job is first at work for somebody else. */
  hold: number;
  /** The budget continues as new after an event. */
  continueAsNew: number;
  /** The worker of the budget is away for up to 20 s. */
  budgetDown: number;
  /** The budget is terminated, and restored from its last state. */
  budgetTerminated: number;
  /** The budget is terminated, its state is lost, and a new one starts with every slot assumed to be used. */
  budgetLost: number;
  /** The budget is terminated and deleted. The next ask starts one that knows nothing. */
  budgetDeleted: number;
  /** An operator pauses and resumes the budget. */
  operatorPauses: number;
  /** Others use the same limit. */
  outsiders: number;
  /** The service refuses the credentials for a while. */
  badCredentials: number;
  clockJumps: number;
  /** Limit, window and reserve change while sends are under way. */
  liveChanges: number;
  /** The budget's limit is too high and its window too short. Only the workers' ceiling is right. */
  ceiling: number;
}

/** Faults of one seed; none after {@link HEALED_AT_MS}. */
export class Faults {
  readonly #timeline: Timeline;
  readonly #chance: Chance;

  constructor(
    timeline: Timeline,
    chance: Chance,
    readonly rates: FaultRates,
  ) {
    this.#timeline = timeline;
    this.#chance = chance;
  }

  /** Whether a fault strikes here and now. */
  strikes(kind: keyof FaultRates, share = 1): boolean {
    return this.#timeline.nowMs < HEALED_AT_MS && this.#chance.happens(this.rates[kind] * share);
  }
}

/** Draws the mix of faults of a seed. */
export function drawFaults(chance: Chance, chaotic: boolean): FaultRates {
  const upTo = (share: number, most: number) => (chaotic && chance.happens(share) ? chance.between(0, most) : 0);
  const always = (share: number) => (chaotic && chance.happens(share) ? 1 : 0);
  return {
    crash: upTo(0.5, 0.06),
    pause: upTo(0.4, 0.08),
    suspend: upTo(0.3, 0.05),
    lost: upTo(0.4, 0.1),
    slow: upTo(0.4, 0.1),
    letGo: upTo(0.4, 0.3),
    duplicated: upTo(0.5, 0.1),
    post: upTo(0.5, 0.2),
    lateBytes: upTo(0.3, 0.3),
    cancel: upTo(0.3, 0.3),
    terminate: upTo(0.3, 0.3),
    workflowReset: upTo(0.3, 0.3),
    activityReset: upTo(0.3, 0.5),
    settleLost: upTo(0.3, 0.3),
    giveUp: always(0.2) * 0.3,
    hold: upTo(0.2, 0.3),
    continueAsNew: upTo(0.5, 0.1),
    budgetDown: always(0.3),
    budgetTerminated: always(0.12),
    budgetLost: always(0.06),
    budgetDeleted: always(0.06),
    operatorPauses: always(0.2),
    outsiders: always(0.3),
    badCredentials: always(0.2),
    clockJumps: always(0.3),
    liveChanges: always(0.3),
    ceiling: always(0.2),
  };
}
