/**
 * Terminal escape sequences by the grammar of ECMA-48: control sequences (CSI), strings with an end of their own (OSC,
 * DCS and the like, cut at the end of the line where the end is missing), and all others. Every part after the first
 * character is optional and the parts share no character, so the pattern never backtracks: the time is linear, whatever
 * the text.
 */
const ESCAPE_SEQUENCES =
  // eslint-disable-next-line no-control-regex -- removing control characters is the purpose
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]?|(?:\u001b[\]PX^_]|[\u0090\u0098\u009d-\u009f])[^\u0007\n\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)?|\u001b[ -/]*[0-~]?/g;

// C0 without tab and line feed, DEL, C1, and the marks that reorder text on screen.
// eslint-disable-next-line no-control-regex -- removing control characters is the purpose
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Text that is safe on a terminal: without escape sequences, and without control characters except line feeds and tabs. */
export function safeText(text: string): string {
  return text.replace(ESCAPE_SEQUENCES, '').replace(CONTROLS, '');
}
