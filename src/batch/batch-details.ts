import { markdownAsOf, markdownCode as code, markdownInstant } from '../common/index.js';
import { type BatchItem, type BatchStatus, type Delivered, followUpBatchWorkflowId } from '../contract/index.js';
import type { PartInput } from '../protocol/index.js';
import { endedOf } from './outcome.js';
import type { Part } from './part.js';

/** Describes a batch in Markdown. Uses lists because the Temporal UI renders tables without spacing. */
export function describeBatch(status: BatchStatus, errors: readonly BatchItem[], nowMs: number): string {
  const { total, waitingToStart, open, completed, archived, failed, unknown, errorsByType, hold } = status;
  const ended = total - waitingToStart - open;
  const lines = [`**${ended} of ${total} ended${headlineOf(status)}**`, ''];
  const row = (name: string, value: number | string): number => lines.push(`- ${name}: ${value}`);
  row('completed', completed);
  if (archived > 0) row('archived', archived);
  if (failed > 0) row('agent jobs that failed', failed);
  for (const [type, count] of Object.entries(errorsByType)) row(`errors ${code(type)}`, count);
  if (unknown > 0) row('errors with unknown delivery', unknown);
  if (!status.ended) {
    row('open', `${open}, at most ${status.maxOpen}`);
    row('waiting to start', waitingToStart);
  }
  row('started', markdownInstant(status.startedAt, nowMs));
  if (status.lastEndedAt) row('latest end', markdownInstant(status.lastEndedAt, nowMs));
  if (hold) row('held', `${hold.reason}, since ${markdownInstant(hold.at, nowMs)}`);
  row('to do', nextStep(status));
  if (errors.length > 0) {
    lines.push('', '**Failed items**', '');
    for (const item of errors) lines.push(`- item ${item.index + 1}, ${code(item.workflowId)}: ${describeEnd(item)}`);
  }
  lines.push('', markdownAsOf(nowMs));
  return lines.join('\n');
}

export function describePart(part: Part, { first, items, batchId }: PartInput, nowMs: number): string {
  const ended = endedOf(part.counts());
  return [
    `**${ended} of ${items.length} ended**, ${part.positions('open').length} open, at most ${part.order.share}`,
    '',
    `- items: ${first + 1} to ${first + items.length} of batch ${code(batchId)}`,
    `- to do: nothing here. The batch decides: ${code(followUpBatchWorkflowId({ batchId }))}`,
    '',
    markdownAsOf(nowMs),
  ].join('\n');
}

function headlineOf({ ended, cancelled, sealed, hold }: BatchStatus): string {
  if (hold) return `, held (${hold.name})`;
  if (ended) return cancelled ? ', cancelled' : '';
  if (cancelled) return ', being cancelled';
  return sealed ? '' : ', more items may come';
}

function nextStep(status: BatchStatus): string {
  const { batchId, sealed, unknown } = status;
  if (status.hold) return `\`follow-up batch continue ${batchId}\` or \`follow-up batch cancel ${batchId}\``;
  if (!status.ended) {
    const look = `What it waits for: \`follow-up batch status ${batchId}\``;
    // While a list is still being added, some items wait or are open.
    return sealed || status.open + status.waitingToStart > 0
      ? `nothing. ${look}`
      : `to add the rest of its list, run the same \`follow-up batch run\` again; to end it, \`follow-up batch cancel ${batchId}\``;
  }
  if (unknown > 0)
    return `look at the jobs whose delivery is unknown, then: \`follow-up batch retry ${batchId} --only unknown\``;
  if (status.failed + status.errors > 0)
    return `to retry the failed items: \`follow-up batch retry ${batchId} --only failed\``;
  return 'nothing';
}

const DELIVERED: Readonly<Record<Delivered, string>> = {
  yes: 'the message was delivered',
  no: 'the message was not delivered',
  unknown: 'it is **unknown** whether the message was delivered',
};

function describeEnd({ error }: BatchItem): string {
  if (!error) return 'the agent job failed';
  return `${DELIVERED[error.delivered]}, ${code(`${error.type}: ${error.message}`)}`;
}
