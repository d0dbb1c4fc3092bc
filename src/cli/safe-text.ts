import { safeText } from '../terminal-text.js';

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
