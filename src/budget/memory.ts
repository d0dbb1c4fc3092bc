import type { JobFingerprint } from '../contract/protocol.js';
import { hash64 } from '../contract/text.js';
import { MAX_LAST_JOBS, MAX_REMEMBERED, MEMORY_MS } from './limits.js';
import type { BudgetState, Remembered } from './state.js';

/** What is remembered of a workflow id. */
export function recall(state: BudgetState, workflowId: string): Remembered | undefined {
  return state.memory.get(hash64(workflowId));
}

/** Stores what is remembered of a workflow id, as the most recently touched entry, and forgets what is too old. */
export function remember(state: BudgetState, workflowId: string, entry: Remembered): void {
  const key = hash64(workflowId);
  state.memory.delete(key);
  state.memory.set(key, entry);
  trimMemory(state);
}

/** Stores how a job's turn ended, for the next turn's baseline. */
export function rememberJob(state: BudgetState, jobId: string, job: JobFingerprint): void {
  const key = hash64(jobId);
  state.lastJobs.delete(key);
  state.lastJobs.set(key, job);
  trimOldest(state.lastJobs, MAX_LAST_JOBS);
}

/** How the job's last turn ended, if that is known. */
export function recallJob(state: BudgetState, jobId: string): JobFingerprint | undefined {
  return state.lastJobs.get(hash64(jobId));
}

/**
 * Forgets entries older than 72 h and all but the newest 7,500. What is forgotten was granted before its last touch, so
 * `memorySinceMs` advances.
 */
function trimMemory(state: BudgetState): void {
  for (const [key, entry] of state.memory) {
    if (state.memory.size <= MAX_REMEMBERED && entry.touchedAtMs > state.lastTimeMs - MEMORY_MS) return;
    state.memory.delete(key);
    state.memorySinceMs = Math.max(state.memorySinceMs ?? -Infinity, entry.touchedAtMs + state.settings.marginMs);
  }
}

/** Keeps the newest entries of a map. */
export function trimOldest<V>(map: Map<string, V>, size: number): void {
  for (const key of map.keys()) {
    if (map.size <= size) return;
    map.delete(key);
  }
}
