import { defined } from '../common/index.js';
import type { Refusal } from '../contract/index.js';
import { LONGEST_PAUSE_MS } from './pace.js';
import type { MessageRefusals, Waiter } from './state.js';

// A message that the service refuses while it accepts others waits by itself: the fault may be its own.

/** How long a message waits after it was refused alone, and the longest: it grows each time. */
const FIRST_DELAY_MS = 30_000;
const LONGEST_DELAY_MS = 3_600_000;
const DELAY_GROWTH = 3;

export interface RefusedMessage {
  refusal: Refusal;
  statusCode?: number;
  retryAfterMs?: number;
}

/**
 * Notes the refusal of a message. Returns whether the service has accepted others since it refused this one before.
 *
 * @param acceptedGrantAtMs the latest grant whose message was accepted
 */
export function noteRefusal(
  message: { refusals?: MessageRefusals },
  { refusal: reason, statusCode, retryAfterMs }: RefusedMessage,
  acceptedGrantAtMs: number,
  nowMs: number,
): boolean {
  const earlier = message.refusals?.reason === reason ? message.refusals : undefined;
  // A limit refuses some of the messages that are under way together, and may refuse one of them again.
  const isLimited = reason === 'limited';
  const isAlone = earlier !== undefined && earlier.count >= (isLimited ? 2 : 1) && earlier.lastAtMs < acceptedGrantAtMs;
  const count = (earlier?.count ?? 0) + 1;
  message.refusals = defined({
    reason,
    count,
    lastAtMs: nowMs,
    statusCode,
    retryAfterMs,
    isAlone: isAlone || undefined,
  });
  return isAlone;
}

/** Until when a message waits because the service refused it, even while others are sent. 0: it need not. */
export function delayedUntilMs({ refusals }: Waiter): number {
  if (!refusals) return 0;
  const { reason, count, lastAtMs, retryAfterMs = 0, isAlone } = refusals;
  const isLimited = reason === 'limited';
  // The limit that refused it once may no longer be reached.
  const times = isLimited ? (isAlone ? count - 2 : 0) : count;
  const longestMs = isAlone ? LONGEST_DELAY_MS : LONGEST_PAUSE_MS;
  const delayMs = times > 0 ? Math.min(longestMs, FIRST_DELAY_MS * DELAY_GROWTH ** (times - 1)) : 0;
  return lastAtMs + Math.max(retryAfterMs, delayMs);
}

export function isDelayed(waiter: Waiter, nowMs: number): boolean {
  return delayedUntilMs(waiter) > nowMs;
}

/** The waiter whose message was refused least, interactive ones first, and the newest of these: it probes a pause. */
export function probeOf(line: readonly Waiter[]): Waiter | undefined {
  const rank = ({ refusals, lane }: Waiter) => 2 * (refusals?.count ?? 0) + (lane === 'batch' ? 1 : 0);
  const least = Math.min(...line.map(rank));
  return line.findLast((waiter) => rank(waiter) === least);
}
