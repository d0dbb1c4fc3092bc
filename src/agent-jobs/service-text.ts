import { plainText } from '../terminal-text.js';

/** Longest text of the service, or of an error, that is handed on. */
export const MAX_SERVICE_TEXT_LENGTH = 500;

/** Masks a secret in a text. */
export type Mask = (text: string) => string;

// Half a surrogate pair is not text: it cannot be written as UTF-8.
const LONE_SURROGATE = /\p{Surrogate}/gu;

/** A text of the service without terminal escapes, control characters (tab and newline stay) and the API key. */
export function cleanString(text: string, mask: Mask): string {
  return mask(plainText(text).replace(LONE_SURROGATE, '\ufffd'));
}

/** Like {@link cleanString}, in one line of at most {@link MAX_SERVICE_TEXT_LENGTH} characters. */
export function cleanLine(text: string, mask: Mask): string {
  // Masked before it is cut: half a key would not be recognised.
  return cutText(cleanString(text, mask).replace(/\s+/g, ' ').trim());
}

/** Cuts a text to {@link MAX_SERVICE_TEXT_LENGTH} characters, the `…` at its end included. */
export function cutText(text: string): string {
  if (text.length <= MAX_SERVICE_TEXT_LENGTH) return text;
  return `${text.slice(0, MAX_SERVICE_TEXT_LENGTH - 1).replace(LONE_SURROGATE, '')}…`;
}
