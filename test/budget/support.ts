import { Budget, type Effects, newState } from '../../src/budget/index.js';
import type { AcquireAnswer, AcquireRequest, BudgetSettings, SettleMessage } from '../../src/contract/protocol.js';

export const LEASE_MS = 60_000;
export const DRAIN_MS = 120_000;
export const WINDOW_MS = 3_600_000;
export const MARGIN_MS = 2_000;
/** The time at which the tests start. */
export const T0 = Date.UTC(2026, 0, 1);

/** A budget with the production defaults, except for a small limit. */
export function newBudget(settings: Partial<BudgetSettings> = {}): Budget {
  return new Budget(newState('p', { limit: 3, windowMs: WINDOW_MS, reserve: 0, marginMs: MARGIN_MS, ...settings }));
}

/** An ask of follow-up `name` for a job of its own. */
export function ask(name: string, nowMs: number, more: Partial<AcquireRequest> = {}): AcquireRequest {
  return {
    workflowId: name,
    sendNumber: 1,
    jobId: `job-${name}`,
    lane: 'interactive',
    token: `token-${name}`,
    hold: false,
    attemptScheduledAtMs: nowMs,
    firstRunStartedAtMs: T0,
    messageTag: 'messages',
    leaseMs: LEASE_MS,
    drainMs: DRAIN_MS,
    ...more,
  };
}

/** Makes one ask. */
export function askOnce(budget: Budget, nowMs: number, request: AcquireRequest): [AcquireAnswer, Effects] {
  const [[answer], effects] = budget.acquireAll(nowMs, [request]);
  if (!answer) throw new Error('no answer');
  return [answer, effects];
}

/** Asks at `nowMs` and returns the answer only. */
export function acquire(budget: Budget, nowMs: number, name: string, more?: Partial<AcquireRequest>): AcquireAnswer {
  return askOnce(budget, nowMs, ask(name, nowMs, more))[0];
}

/** Settles the first send of `name`. */
export function settle(budget: Budget, nowMs: number, name: string, more: Partial<SettleMessage> = {}) {
  return budget.hear(nowMs, [
    { kind: 'settle', workflowId: name, sendNumber: 1, token: `token-${name}`, outcome: 'sent', ...more },
  ]);
}

/** Ends the follow-up `name`. */
export function finish(budget: Budget, nowMs: number, name: string) {
  return budget.hear(nowMs, [{ kind: 'finish', workflowId: name, jobId: `job-${name}`, sendNumber: 1 }]);
}

/** Grants, settles and ends a send of each of `names`, all at `nowMs`. */
export function spend(budget: Budget, nowMs: number, ...names: string[]): void {
  for (const name of names) {
    const answer = acquire(budget, nowMs, name);
    if (answer.kind !== 'granted') throw new Error(`${name} was not granted: ${JSON.stringify(answer)}`);
    settle(budget, nowMs, name);
    finish(budget, nowMs, name);
  }
}
