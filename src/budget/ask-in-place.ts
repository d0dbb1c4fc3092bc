import type { AcquireAnswer } from '../contract/index.js';
import { UNSETTLED_WAIT_MS } from './limits.js';

/**
 * Whoever waits only for sends in flight asks again from within its activity, at most so often and each time that much
 * later: a way back through its workflow takes longer than such a send.
 */
export const ASKS_IN_PLACE = 4;
export const ASK_IN_PLACE_EVERY_MS = 250;

/** Whether the budget has a slot for the ask, and only too many sends are under way. */
export function waitsForSends({ answer, proven }: { answer: AcquireAnswer; proven: boolean }): boolean {
  return proven && answer.kind === 'wait' && answer.reason === 'slot' && answer.waitMs <= UNSETTLED_WAIT_MS;
}
