import type { Budget } from '../budget/index.js';
import { usedSlotEnds } from '../budget/slots.js';

/** How often idle slots are looked for. */
export const SAMPLE_MS = 100;

/** Figures of the queue in one seed. */
export interface Measures {
  /** Slot time that was free while somebody could have used it, in milliseconds. */
  idleMs: number;
  /** Slot time, used or not, while somebody waited, in milliseconds. */
  slotTimeMs: number;
  /** By how much each slot came later than the first answer had said; negative: earlier. In milliseconds. */
  etaErrorsMs: number[];
}

/** Adds one sample: a slot is idle if it is free and a living follow-up whose job is free waits. */
export function sampleSlots(
  measures: Measures,
  { budget, timeMs, isAlive }: { budget: Budget; timeMs: number; isAlive: (workflowId: string) => boolean },
): void {
  const { waiters, turns, settings, pause } = budget.state;
  const living = waiters.filter(({ workflowId }) => isAlive(workflowId));
  if (living.length === 0) return;
  measures.slotTimeMs += SAMPLE_MS * settings.limit;
  if (pause) return;
  const jobs = living.filter(({ jobId, workflowId }) => (turns.get(jobId)?.workflowId ?? workflowId) === workflowId);
  const startable = new Set(jobs.map(({ jobId }) => jobId)).size;
  const free = Math.max(0, settings.limit - usedSlotEnds(budget.state, timeMs).length);
  measures.idleMs += SAMPLE_MS * Math.min(free, startable);
}
