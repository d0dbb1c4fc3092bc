import { formatDuration, type BatchItem, type BatchStatus } from '../contract/index.js';
import { markdownCode as code } from '../contract/markdown.js';
import { endedOf, entriesOf } from './outcome.js';
import type { Part } from './part.js';

/** What is shown of a batch in the Temporal UI, as Markdown. */
export function describeBatch(status: BatchStatus, errors: readonly BatchItem[], nowMs: number): string {
  const { total, waitingToStart, open, completed, archived, failed, unknown, errorsByType, expectedEndAt } = status;
  const ended = total - waitingToStart - open;
  const lines = [`**${ended} of ${total} ended**${describeState(status)}`, ''];
  const row = (name: string, value: number | string): number => lines.push(`- ${name}: ${value}`);
  row('completed', completed);
  if (archived > 0) row('archived', archived);
  if (failed > 0) row('agent jobs that failed', failed);
  for (const [type, count] of entriesOf(errorsByType)) row(`errors ${code(type)}`, count);
  if (unknown > 0) row('of the errors, delivery unknown', unknown);
  row('open', `${open}, at most ${status.maxOpen}`);
  row('waiting to start', waitingToStart);
  if (expectedEndAt) {
    row('end expected', `${clock(expectedEndAt)} (in ${formatDuration(Date.parse(expectedEndAt) - nowMs)})`);
  }
  if (errors.length > 0) {
    lines.push('', '| item | project | job | what |', '|---|---|---|---|');
    for (const item of errors)
      lines.push(`| ${item.index} | ${item.projectId} | ${item.jobId} | ${describeEnd(item)} |`);
  }
  lines.push('', `_As of ${clock(new Date(nowMs).toISOString())} UTC._`);
  return lines.join('\n');
}

/** What is shown of a part. */
export function describePart(part: Part, nowMs: number): string {
  const { items, order, first } = part.state;
  const ended = endedOf(part.counts());
  return [
    `**${ended} of ${items.length} ended**, ${part.open} open, at most ${order.share}`,
    '',
    `- items: ${first} to ${first + items.length - 1}`,
    '',
    `_As of ${clock(new Date(nowMs).toISOString())} UTC._`,
  ].join('\n');
}

function describeState({ ended, cancelled, sealed }: BatchStatus): string {
  if (ended) return cancelled ? ', cancelled' : '';
  if (cancelled) return ', being cancelled';
  return sealed ? '' : ', more items may come';
}

function describeEnd({ status, error }: BatchItem): string {
  // A bar would end the cell even within code.
  return error ? code(`${error.type}: ${error.message}`.replaceAll('|', '/')) : (status ?? '');
}

/** `12:40:05` of an ISO 8601 instant. */
function clock(iso: string): string {
  return iso.slice(11, 19);
}
