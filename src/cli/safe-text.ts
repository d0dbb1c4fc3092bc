import { stripVTControlCharacters } from 'node:util';

// C0 without tab and line feed, DEL, C1 (where 0x9b begins an escape sequence, too), and what reorders text on screen.
// eslint-disable-next-line no-control-regex -- taking control characters away is what it is for
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Text that may be shown on a terminal: no escape sequences and no control characters but line feeds and tabs. */
export function safeText(text: string): string {
  return stripVTControlCharacters(text).replace(CONTROLS, '');
}

/** Like {@link safeText}, on one line: for values that come from elsewhere. */
export function safeLine(text: string): string {
  return safeText(text.replace(/\s+/g, ' ')).trim();
}

/** JSON in which no control character stands as itself; `JSON.stringify` leaves DEL and C1 as they are. */
export function safeJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\u007f-\u009f]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
