import { type At, DELIVERED, type Description, markdownCode as code, type Row, toMarkdown } from '../common/index.js';
import {
  type BatchCounts,
  type BatchItem,
  type BatchStatus,
  followUpBatchWorkflowId,
  type ListedItems,
} from '../contract/index.js';
import type { PartInput } from '../protocol/index.js';
import { endedOf } from './outcome.js';
import type { Part } from './part.js';

/** What is known of a batch. Its result has the counts of its end. */
type KnownStatus = BatchCounts & Pick<BatchStatus, 'batchId' | 'total' | 'ended' | 'sealed'> & Partial<BatchStatus>;

/** @param failures the first items without success */
export function describeBatch(status: KnownStatus, failures: readonly BatchItem[], at: At): Description {
  const { batchId, ended, failed, errors } = status;
  const live = countsOf(status);
  const lines = failures.map(({ index, workflowId, error }) => {
    const why = error
      ? `${DELIVERED[error.delivered]}, ${code(`${error.type}: ${error.message}`)}`
      : 'the agent job failed';
    return `${workflowId ? code(workflowId) : `item ${index}`}: ${why}`;
  });
  const more = failed + errors - failures.length;
  if (more > 0) lines.push(`and ${more} more: \`follow-up batch status ${batchId} --json\``);
  return {
    headline: headlineOf(status, at),
    rows: [
      ['batch', code(batchId)],
      ...live,
      ['open at most', !ended && !status.cutOff && String(status.maxOpen)],
      ['started', status.startedAt && at(status.startedAt)],
      ['latest end', status.lastEndedAt && at(status.lastEndedAt)],
    ],
    live,
    nextSteps: nextSteps(status),
    lists: [['Failed items', lines]],
    newer: !ended && `\`follow-up batch status ${batchId}\``,
  };
}

export function describePart(part: Part, { first, items, batchId }: PartInput, nowMs: number): string {
  const ended = endedOf(part.counts());
  return toMarkdown(
    () => ({
      headline: `${ended} of ${items.length} ended, ${part.positions('open').length} open, at most ${part.order.share}`,
      rows: [['items', `${first + 1} to ${first + items.length} of batch ${code(batchId)}`]],
      nextSteps: ['nothing here', `the batch decides: ${code(followUpBatchWorkflowId({ batchId }))}`],
    }),
    nowMs,
  );
}

function countsOf(status: KnownStatus): Row[] {
  const { completed, archived, failed, errors, unknown, errorsByType } = status;
  const { open = 0, waitingToSend = 0, waitingToStart = 0, cutOff, listed = [], total } = status;
  if (cutOff !== undefined) {
    const count = listed.reduce((sum, each) => sum + each.count, 0);
    return [...listed.map(describeListed), ['not started', total > count && String(total - count)]];
  }
  const types = Object.entries(errorsByType).map(([type, count]) => `${type} ${count}`);
  const doubt = unknown > 0 ? `; ${unknown} possibly delivered` : '';
  const waiting = waitingToSend > 0 ? `, ${waitingToSend} of them waiting to send` : '';
  return [
    ['completed', completed > 0 && String(completed)],
    ['archived', archived > 0 && String(archived)],
    ['agent job failed', failed > 0 && String(failed)],
    ['no result', errors > 0 && `${errors} (${types.join(', ')}${doubt})`],
    ['open', open > 0 && `${open}${waiting}`],
    ['not started', waitingToStart > 0 && String(waitingToStart)],
  ];
}

export const describeListed = ({ state, projectId, count }: ListedItems): Row => [
  state,
  `${count} in project ${code(projectId)}`,
];

function headlineOf(status: KnownStatus, at: At): string {
  const { cutOff, total } = status;
  if (cutOff !== undefined) return `${cutOff} without a result; its ${total} items, as Temporal lists them`;
  return `${endedOf(status)} of ${total} ended${suffixOf(status, at)}`;
}

function suffixOf({ ended, cancelled, sealed, hold }: KnownStatus, at: At): string {
  if (hold) return `, held since ${at(hold.at)}: ${hold.reason}`;
  if (ended) return cancelled ? ', cancelled' : '';
  if (cancelled) return ', being cancelled';
  return sealed ? '' : ', more items may come';
}

function nextSteps({ batchId, ended, sealed, hold, cutOff, ...status }: KnownStatus): string[] {
  const { open = 0, waitingToStart = 0, failed, errors, unknown, listed = [] } = status;
  if (cutOff !== undefined) {
    const isRunning = listed.some((each) => each.isRunning);
    const retry = `\`follow-up batch retry ${batchId}\` sends what was not delivered`;
    return isRunning ? [`wait for those that run: \`follow-up list --batch ${batchId}\``, `then: ${retry}`] : [retry];
  }
  const cancel = `\`follow-up batch cancel ${batchId}\``;
  if (hold) return [`to go on: \`follow-up batch continue ${batchId}\``, `or, to end it: ${cancel}`];
  if (!ended) {
    // While a list is still being added, some items wait or are open.
    if (sealed || open + waitingToStart > 0) return ['no action is needed'];
    return ['to add the rest of its list, run the same `follow-up batch run` again', `or, to end it: ${cancel}`];
  }
  if (unknown > 0)
    return ['look at the jobs whose delivery is unknown', `then: \`follow-up batch retry ${batchId} --only unknown\``];
  if (failed + errors > 0) return [`to retry the failed items: \`follow-up batch retry ${batchId} --only failed\``];
  return [];
}
