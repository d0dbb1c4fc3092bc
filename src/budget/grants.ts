import { lanes } from '../contract/index.js';
import type { Granted } from '../protocol/index.js';
import { forgetWork, lineOf } from './line.js';
import { type GrantKind, nextGrant } from './pace.js';
import { isPausedByOperator } from './pauses.js';
import { isDelayed, probeOf } from './refusals.js';
import { grantedReply, noteGrant } from './sends.js';
import { freeSlots, grantSlot } from './slots.js';
import type { BudgetState, Waiter } from './state.js';
import { giveTurn } from './turns.js';

/** Grants the next send that may be made now, if there is one. */
export function grantNext(state: BudgetState, nowMs: number): { workflowId: string; reply: Granted } | undefined {
  const next = nextInLine(state, nowMs);
  if (!next) return undefined;
  const { waiter, kind } = next;
  const { workflowId, job, lane } = waiter;
  state.waiters = state.waiters.filter((each) => each !== waiter);
  state.counts.grants += 1;
  state.grantsSinceBatch = lane === 'batch' ? 0 : state.grantsSinceBatch + 1;
  const latest = noteGrant(state, grantSlot(state, waiter, nowMs), waiter, kind);
  giveTurn(state, workflowId);
  forgetWork(state, job);
  return { workflowId, reply: grantedReply(state, workflowId, latest) };
}

function nextInLine(state: BudgetState, nowMs: number): { waiter: Waiter; kind: GrantKind } | undefined {
  if (state.isCounting || isPausedByOperator(state, nowMs)) return undefined;
  const underWay = state.grants.filter(({ grantedAtMs, leaseMs }) => grantedAtMs + leaseMs > nowMs).length;
  const kind = nextGrant(state.pace, underWay, nowMs);
  if (!kind) return undefined;
  const open = lanes.filter((lane) => freeSlots(state, lane) > 0);
  const line = lineOf(state, nowMs).filter((waiter) => open.includes(waiter.lane) && !isDelayed(waiter, nowMs));
  const waiter = kind === 'due' ? probeOf(line) : line[0];
  return waiter && { waiter, kind };
}
