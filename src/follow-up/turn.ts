import { isTerminalStatus, type FollowUpProgress } from '../contract/index.js';
import { isOtherLink } from './message-tag.js';
import type { FollowUpState, Watching } from './state.js';

/**
 * What the job has shown of this message's turn, to be shown to people. Before the send, and as long as the job shows a
 * terminal status that is not believed, all that it shows is of the turn before.
 */
export function turnShown({
  phase,
  seen,
  recordedTag,
}: Pick<FollowUpState, 'phase' | 'seen' | 'recordedTag'>): Pick<FollowUpProgress, 'jobStatus' | 'prLink'> {
  if (phase.kind !== 'watching' || !seen?.isSinceSend) return {};
  const { status, prLink } = seen.job;
  const isEnd = isTerminalStatus(status);
  if (isEnd && !phase.terminalSeen) return {};
  // A turn may end with the pull request that was there before it; until then that one is not its own.
  const isLinkShown = prLink && (isEnd || isNewLink(prLink, phase, recordedTag));
  return { ...(status !== undefined && { jobStatus: status }), ...(isLinkShown && { prLink }) };
}

/**
 * Whether a pull request is another than before the send. `recordedTag`: the budget's, where it had recorded the send:
 * the baseline may be from after it.
 */
export function isNewLink(
  prLink: string | null,
  { baseline }: Pick<Watching, 'baseline'>,
  recordedTag: string | undefined,
): boolean {
  return recordedTag === undefined ? prLink !== (baseline.prLink ?? null) : isOtherLink(recordedTag, prLink);
}
