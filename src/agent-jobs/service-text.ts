import { stripVTControlCharacters } from 'node:util';

/** Longest text of the service, or of an error, that is handed on. */
export const MAX_SERVICE_TEXT_LENGTH = 500;

/** Masks a secret in a text. */
export type Mask = (text: string) => string;

// Bidirectional overrides and isolates can make a terminal show a text in another order than it is.
// eslint-disable-next-line no-control-regex -- removing control characters is what this is for
const CONTROL_BUT_TAB_AND_NEWLINE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;
// Half a surrogate pair is not text: it cannot be written as UTF-8.
const LONE_SURROGATE = /\p{Surrogate}/gu;

/** A text of the service without terminal escapes, control characters (tab and newline stay) and the API key. */
export function cleanString(text: string, mask: Mask): string {
  const plain = stripVTControlCharacters(text)
    .replace(CONTROL_BUT_TAB_AND_NEWLINE, '')
    .replace(LONE_SURROGATE, '\ufffd');
  return mask(plain);
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
