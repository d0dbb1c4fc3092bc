import { parseInput, type InputIssue, type ProjectBudgetInput } from '../contract/index.js';
import { Budget } from './budget.js';
import { carriedStateSchema, restoreState, type CarriedState } from './carry.js';
import { assumeFull, reopen } from './operator.js';
import { newState, type BudgetState } from './state.js';

/** State of a budget's first run: new, that of a budget that was stopped, or, where that is lost, all spent. */
export function beginState(
  { projectId, settings, restored, assumeFull: isLost, inFlightUntilMs }: ProjectBudgetInput,
  { startedAtMs, nowMs }: { startedAtMs: number; nowMs: number },
): { ok: true; state: BudgetState } | { ok: false; issues: InputIssue[] } {
  if (restored === undefined) {
    const state = newState(projectId, settings, startedAtMs);
    if (isLost) assumeFull(state, nowMs, inFlightUntilMs);
    return { ok: true, state };
  }
  // Written by this very workflow, of this or an older version, and read from its history; not by people.
  const parsed = parseInput(carriedStateSchema, restored);
  const state = parsed.ok && parsed.value.projectId === projectId ? restoreSound(parsed.value) : undefined;
  if (state) {
    reopen(state, nowMs);
    return { ok: true, state };
  }
  const issues = parsed.ok ? [] : parsed.issues.map(({ field, message }) => ({ field: `restored.${field}`, message }));
  return {
    ok: false,
    issues: [{ field: 'restored', message: `must be the state of a budget of ${projectId}` }, ...issues],
  };
}

/** None where an instant is none: every later task would fail on it. */
function restoreSound(carried: CarriedState): BudgetState | undefined {
  const state = restoreState(carried);
  try {
    void new Budget(state).status(state.lastTimeMs);
    return state;
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}
