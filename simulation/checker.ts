import type { FollowUpRecord } from './follow-up-record.js';
import type { LedgerEntry, Service } from './service.js';
import type { Sizes } from './sizes.js';

/** What can be wrong with a seed. */
export const verdicts = {
  overBudget: 'messages beyond the limit in some rolling window of the service',
  doubled: 'follow-ups delivered more than once without having asked for it',
  stuck: 'follow-ups that never ended',
  lying: 'follow-ups whose caller was told of a delivery that was none, or of none that was one',
  fooled: 'follow-ups that ended with a result before their turn was over',
  untold: 'follow-ups whose budget was not told that they had ended',
} as const;
type Verdict = keyof typeof verdicts;

/** How often each verdict applies to a seed. All are 0 if nothing is wrong. */
export type Verdicts = Record<Verdict, number>;

/** Checks a seed. It uses only the service's ledger and what the callers were told. */
export function check(
  sizes: Pick<Sizes, 'limit' | 'windowMs'>,
  { ledger, turnEndsAtMs }: Pick<Service, 'ledger' | 'turnEndsAtMs'>,
  followUps: readonly FollowUpRecord[],
): Verdicts {
  const found = { overBudget: countOverBudget(sizes, ledger), doubled: 0, stuck: 0, lying: 0, fooled: 0, untold: 0 };
  const accepted = new Map<string, number>();
  for (const entry of ledger) {
    if (entry.accepted) accepted.set(entry.workflowId, (accepted.get(entry.workflowId) ?? 0) + 1);
  }
  for (const { workflowId, ending, endedAtMs = 0, onUnknownDelivery, hasAsked, hasToldEnd } of followUps) {
    const deliveries = accepted.get(workflowId) ?? 0;
    if (deliveries > 1 && onUnknownDelivery !== 'resend') found.doubled += 1;
    if (ending === undefined) found.stuck += 1;
    else if (ending !== 'terminated') {
      const { delivered } = ending;
      if ((delivered === 'no' && deliveries > 0) || (delivered === 'yes' && deliveries === 0)) found.lying += 1;
      const hasResult = ending.result === 'completed' && delivered === 'yes';
      const turnEnd = turnEndsAtMs.get(workflowId);
      if (hasResult && deliveries === 1 && turnEnd !== undefined && endedAtMs < turnEnd) found.fooled += 1;
      if (hasAsked && !hasToldEnd) found.untold += 1;
    }
  }
  return found;
}

/** Number of messages that came less than a window after the one `limit` places before them. */
function countOverBudget(
  { limit, windowMs }: Pick<Sizes, 'limit' | 'windowMs'>,
  ledger: readonly LedgerEntry[],
): number {
  const times = ledger.map((entry) => entry.atMs).sort((a, b) => a - b);
  return times.filter((atMs, index) => {
    const before = times[index - limit];
    return before !== undefined && atMs - before < windowMs;
  }).length;
}
