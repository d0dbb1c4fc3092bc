import type { GrantedBefore } from '../contract/index.js';

/** What one run of a follow-up knows, as in the product's workflow. */
export interface FollowUpRunState {
  phase: 'asking' | 'reconciling' | 'polling';
  sendNumber: number;
  /** Reads of the job that failed in a row. */
  failures: number;
  notSentInARow: number;
  /** Whether the latest read was refused for its key. */
  keyIsRefused: boolean;
  staleAsks: number;
  earlierSendUnknown: boolean;
  /** Whether it is certain that nothing was granted to the current send number. */
  provenNotSent: boolean;
  knownToGate: boolean;
  heldAtMs: number;
  /** Wait between two looks at the job. */
  intervalMs: number;
  reconcileUntilMs: number;
  grantedAtMs?: number;
  grantedBefore?: GrantedBefore;
  ledgerSinceMs?: number;
  askAgainFirst: boolean;
  delivery: 'sent' | 'inferred' | 'assumed' | undefined;
}

/** First wait between two looks at the job, and the bounds of its growth. */
export const FIRST_LOOK_MS = 1_000;
export const LOOKS = { maxIntervalMs: 10_000, backoffCoefficient: 1.5 };

/** State at the begin of a run; a run after a workflow reset is not the first. */
export function newRunState(isFirstRun: boolean): FollowUpRunState {
  return {
    phase: 'asking',
    sendNumber: 1,
    failures: 0,
    notSentInARow: 0,
    keyIsRefused: false,
    staleAsks: 0,
    earlierSendUnknown: false,
    provenNotSent: isFirstRun,
    knownToGate: !isFirstRun,
    heldAtMs: -Infinity,
    intervalMs: FIRST_LOOK_MS,
    reconcileUntilMs: 0,
    askAgainFirst: false,
    delivery: undefined,
  };
}
