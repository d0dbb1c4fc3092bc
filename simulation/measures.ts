import type { Budget } from '../src/budget/index.js';
import { eligibleLine, isJobBusy } from '../src/budget/line.js';
import { pacedMs } from '../src/budget/pause.js';
import { limitOf, usedSlotEnds } from '../src/budget/slots.js';
import type { Waiter } from '../src/budget/state.js';
import type { Sizes } from './sizes.js';

/** How often the queue is sampled: often enough to see what lasts a share of the window. */
export function sampleEveryMs({ windowMs }: Sizes): number {
  return Math.max(100, windowMs / 3_600);
}

/** Measurements of the queue in one seed. */
export interface Measures {
  /** Slot time that was free while somebody could have used it, in milliseconds. */
  idleMs: number;
  /** Slot time, used or not, while somebody waited, in milliseconds. */
  slotTimeMs: number;
  /** How much later than first expected each slot came; negative if earlier. In milliseconds. */
  etaErrorsMs: number[];
  /** Longest time that a waiter stood first in line before a free slot, in milliseconds. */
  longestStandMs: number;
  /** Longest time that an interactive follow-up waited while slots of its lane were free, in milliseconds. */
  longestPassedOverMs: number;
  /** Longest time from the start of an interactive follow-up to its first grant, in milliseconds. */
  longestInteractiveMs: number;
  /** Number of asks in the busiest hour. */
  asksInAnyHour: number;
  /**
   * Messages that the service accepted in each hour of the backlog except the first, which has no refusals before it.
   */
  takenInLaterHours: number[];
}

/** Samples the queue of one seed. */
export class QueueSampler {
  readonly #measures: Measures;
  readonly #everyMs: number;
  readonly #isAlive: (workflowId: string) => boolean;
  /** Since when each waiter could have been sent, for either measurement. */
  #standing = new Map<string, number>();
  #passedOver = new Map<string, number>();

  constructor(measures: Measures, { everyMs, isAlive }: { everyMs: number; isAlive: (workflowId: string) => boolean }) {
    this.#measures = measures;
    this.#everyMs = everyMs;
    this.#isAlive = isAlive;
  }

  /** Adds one sample. A slot is idle if it is free and a living follow-up whose job is free may use it. */
  sample(budget: Budget, timeMs: number): void {
    const { state } = budget;
    const { waiters, settings, pause } = state;
    const isAlive = ({ workflowId }: Waiter) => this.#isAlive(workflowId);
    const limit = limitOf(state);
    if (waiters.some(isAlive)) this.#measures.slotTimeMs += this.#everyMs * limit;
    const isPaced = pacedMs(state, 0) > timeMs;
    const free = pause || isPaced ? 0 : Math.max(0, limit - usedSlotEnds(state, timeMs).length);
    const line = free === 0 ? [] : eligibleLine(state, timeMs).filter(isAlive);
    const reserved = (waiter: Waiter) => (waiter.lane === 'batch' ? settings.reserve : 0);

    const first = line.find((waiter) => free > reserved(waiter));
    this.#standing = since(this.#standing, first ? [first] : [], timeMs);
    const passedOver = line.filter(({ lane }) => lane === 'interactive').slice(0, free);
    this.#passedOver = since(this.#passedOver, passedOver, timeMs);
    const longest = (map: Map<string, number>) => Math.max(0, ...[...map.values()].map((fromMs) => timeMs - fromMs));
    this.#measures.longestStandMs = Math.max(this.#measures.longestStandMs, longest(this.#standing));
    this.#measures.longestPassedOverMs = Math.max(this.#measures.longestPassedOverMs, longest(this.#passedOver));

    if (free === 0) return;
    const living = waiters.filter(isAlive);
    const jobs = (lane: Waiter['lane']) =>
      new Set(living.filter((each) => each.lane === lane && !isJobBusy(state, each)).map(({ jobId }) => jobId)).size;
    const interactive = Math.min(free, jobs('interactive'));
    const batch = Math.min(Math.max(0, free - interactive - settings.reserve), jobs('batch'));
    this.#measures.idleMs += this.#everyMs * (interactive + batch);
  }
}

function since(before: Map<string, number>, waiters: readonly Waiter[], timeMs: number): Map<string, number> {
  return new Map(waiters.map(({ workflowId }) => [workflowId, before.get(workflowId) ?? timeMs]));
}
