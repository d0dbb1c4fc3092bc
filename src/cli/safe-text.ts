import { plainText } from '../terminal-text.js';

/** Text for a terminal on one line, without anything that a terminal obeys: for values that come from elsewhere. */
export function safeLine(text: string): string {
  return plainText(text.replace(/\s+/g, ' ')).trim();
}

/** JSON in which no control character stands as itself; `JSON.stringify` leaves DEL and C1 as they are. */
export function safeJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\u007f-\u009f]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
