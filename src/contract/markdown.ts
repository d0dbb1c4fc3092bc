/** Longest text that is shown. */
const MAX_LENGTH = 300;

/** Text of others, such as the service or an operator, as inline code, which Markdown does not interpret. */
export function markdownCode(text: string): string {
  return `\`${text.replace(/[`\r\n]/g, ' ').slice(0, MAX_LENGTH)}\``;
}
