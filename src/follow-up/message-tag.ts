import { hash64 } from '../contract/hash.js';

/** Characters of base64url: 30 bits tell messages apart, 18 bits the links of two turns. */
const MESSAGE_LENGTH = 5;
const LINK_LENGTH = 3;

/**
 * What the budget keeps of a message that it let through, in 8 characters: whether another start of the same workflow id
 * wants something else sent, and whether the pull request is another than before the send. The workflow id goes in, so
 * that equal messages of two follow-ups do not look alike, and nothing can be read out of it.
 */
export function messageTag(send: { workflowId: string; prompt: string; prLink: string | null }): string {
  return hash64(`${send.workflowId}\n${send.prompt}`).slice(0, MESSAGE_LENGTH) + linkTag(send.prLink);
}

/** Whether two tags are of the same message. */
export function isSameMessage(one: string, other: string): boolean {
  return one.slice(0, MESSAGE_LENGTH) === other.slice(0, MESSAGE_LENGTH);
}

/** Whether a pull request is another than the one before the send that the tag was made for. */
export function isOtherLink(tag: string, prLink: string | null): boolean {
  return tag.slice(MESSAGE_LENGTH) !== linkTag(prLink);
}

function linkTag(prLink: string | null): string {
  return hash64(prLink ?? '').slice(0, LINK_LENGTH);
}
