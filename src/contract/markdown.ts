/** Longest text that is shown. */
const MAX_LENGTH = 300;

/** Text of others, such as the service or an operator, as inline code, which Markdown does not interpret. */
export function markdownCode(text: string): string {
  return `\`${text.replace(/[`\r\n]/g, ' ').slice(0, MAX_LENGTH)}\``;
}

/** `12:40:05 UTC`, with the day before it where that is not today's: the pages around it show local times. */
export function markdownInstant(iso: string, nowMs: number): string {
  const day = iso.slice(0, 10);
  const time = `${iso.slice(11, 19)} UTC`;
  return day === new Date(nowMs).toISOString().slice(0, 10) ? time : `${day} ${time}`;
}

/** The last line of all current details: they are made at an event, and read at any time after it. */
export function markdownAsOf(nowMs: number): string {
  const iso = new Date(nowMs).toISOString();
  return `_As of ${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC._`;
}
