/**
 * One record of CSV as RFC 4180 has it, with its CRLF. A text that a spreadsheet could take for a formula gets an
 * apostrophe in front, which makes it text: OWASP names `=`, `+`, `-`, `@`, their full-width forms, tab and line ends.
 */
export function csvRecord(cells: readonly (string | number | null | undefined)[]): string {
  return `${cells.map(toCell).join(',')}\r\n`;
}

function toCell(value: string | number | null | undefined): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'number') return String(value);
  const text = /^[=+\-@\uff1d\uff0b\uff0d\uff20\t\r\n]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
