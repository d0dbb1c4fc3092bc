/** Formats an instant in ISO 8601 for people. */
export type At = (iso: string) => string;

/** Formats the time of something expected, such as a send. If the time has passed, nothing is known of it yet. */
export function due(iso: string, at: At, nowMs: number): string {
  return Date.parse(iso) > nowMs ? at(iso) : `${at(iso)}, overdue`;
}

/** A name and its text. Without a text, the row is not shown. */
export type Row = readonly [name: string, text: string | false | null | undefined];

/**
 * What people read about a workflow. The Temporal UI shows it as Markdown, a terminal in columns. Texts may contain
 * what {@link markdownCode} and {@link markdownLink} return, and no other Markdown.
 */
export interface Description {
  /** The state in one line. */
  headline: string;
  rows: readonly Row[];
  /** What a live display shows in one line. Not all of it need be in `rows`. */
  live?: readonly Row[];
  /** What a person can do, one step each. */
  nextSteps: readonly string[];
  lists?: readonly (readonly [title: string, items: readonly string[]])[];
  /** Where newer facts are. Only in the Temporal UI, because a workflow does not learn of every poll. */
  newer?: string | false;
}

/** Whether a message was delivered, within a sentence. */
export const DELIVERED = { yes: 'delivered', no: 'not delivered', unknown: 'possibly delivered' } as const;

/** A service may send a text of 128 KiB as its job's status. */
const MAX_CODE_LENGTH = 1_000;

/** Formats text from the service or an operator as inline code, which Markdown does not interpret. */
export function markdownCode(text: string): string {
  return `\`${text.replaceAll('`', "'").replace(/\s+/g, ' ').slice(0, MAX_CODE_LENGTH)}\``;
}

/** Only a plain web address becomes a link. Other text from the service stays text. */
export function markdownLink(url: string): string {
  return /^https?:\/\/[\w.~:/?#@!$&'*+,;=%-]+$/.test(url) ? `<${url}>` : markdownCode(url);
}

/**
 * Formats a description for the Temporal UI, with instants in UTC. Uses lists because the UI renders tables without
 * spacing. The last line shows the time, because the text may be read long after it was written.
 */
export function toMarkdown(describe: (at: At) => Description, nowMs: number): string {
  const today = new Date(nowMs).toISOString();
  // It names UTC because the UI itself shows local times.
  const at: At = (iso) => {
    const [day, time] = [iso.slice(0, 10), `${iso.slice(11, 19)} UTC`];
    return today.startsWith(day) ? time : `${day} ${time}`;
  };
  const { headline, rows, nextSteps, lists = [], newer } = describe(at);
  const shown: Row[] = [...rows, ['to do', nextSteps.join('; ')]];
  const lines = shown.flatMap(([name, text]) => (text ? `- ${name}: ${text}` : []));
  const asOf = `_As of ${today.slice(0, 19).replace('T', ' ')} UTC._`;
  const sections = lists.flatMap(([title, items]) =>
    items.length > 0 ? [`**${title}**`, '', ...items.map((item) => `- ${item}`), ''] : [],
  );
  return [`**${headline}**`, '', ...lines, '', ...sections, newer ? `${asOf} Newer: ${newer}` : asOf].join('\n');
}
