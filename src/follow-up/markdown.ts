/** `12:40:05` of an ISO 8601 instant. */
export function clock(iso: string): string {
  return iso.slice(11, 19);
}

/** Text of the service as inline code, which Markdown does not interpret. */
export function code(text: string): string {
  return `\`${text.replace(/[`\r\n]/g, ' ').slice(0, 300)}\``;
}

/** Only a plain web address becomes a link; anything else a service may put there is shown as text. */
export function link(url: string): string {
  return /^https?:\/\/[\w.~:/?#@!$&'*+,;=%-]+$/.test(url) ? `<${url}>` : code(url);
}
