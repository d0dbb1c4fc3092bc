import { type FollowUpProgress, isTerminalStatus } from '../contract/index.js';
import { hash64 } from '../contract/text.js';
import type { FollowUpState, Watching } from './state.js';

/**
 * What the job has shown of this message's turn. Before the send, and while the job shows a terminal status that is not
 * believed, everything that it shows belongs to the previous turn.
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
  // A turn may end with the pull request that existed before it. Until it ends, that one is not shown as its own.
  const isLinkShown = prLink && (isEnd || isNewLink(prLink, phase, recordedTag));
  return { ...(status !== undefined && { jobStatus: status }), ...(isLinkShown && { prLink }) };
}

/**
 * Whether a pull request differs from the one before the send.
 *
 * @param recordedTag the budget's, if it had recorded the send: then the baseline may be from after the send
 */
export function isNewLink(
  prLink: string | null,
  { baseline }: Pick<Watching, 'baseline'>,
  recordedTag: string | undefined,
): boolean {
  return recordedTag === undefined ? prLink !== (baseline.prLink ?? null) : isOtherLink(recordedTag, prLink);
}

/** Characters of base64url: 30 bits distinguish messages, 18 bits distinguish the links of two turns. */
const MESSAGE_LENGTH = 5;
const LINK_LENGTH = 3;

/**
 * What the budget keeps of a message that it let through, in 8 characters. It tells whether another start of the same
 * workflow id has another message, and whether the pull request has changed since the send. The workflow id is part of
 * the hash, so that equal messages of two follow-ups have different tags, and nobody can read anything from a tag.
 */
export function messageTag(send: { workflowId: string; prompt: string; prLink: string | null }): string {
  return hash64(`${send.workflowId}\n${send.prompt}`).slice(0, MESSAGE_LENGTH) + linkTag(send.prLink);
}

export function isSameMessage(one: string, other: string): boolean {
  return one.slice(0, MESSAGE_LENGTH) === other.slice(0, MESSAGE_LENGTH);
}

/** Whether a pull request differs from the one before the send that the tag was made for. */
export function isOtherLink(tag: string, prLink: string | null): boolean {
  return tag.slice(MESSAGE_LENGTH) !== linkTag(prLink);
}

function linkTag(prLink: string | null): string {
  return hash64(prLink ?? '').slice(0, LINK_LENGTH);
}
