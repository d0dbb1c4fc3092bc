import { type At, DELIVERED, type Description, markdownCode as code, type Row, toMarkdown } from '../common/index.js';
import { type BatchCounts, type BatchItem, type BatchStatus, followUpBatchWorkflowId } from '../contract/index.js';
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
    return `item ${index + 1}${workflowId && `, ${code(workflowId)}`}: ${why}`;
  });
  const more = failed + errors - failures.length;
  if (more > 0) lines.push(`and ${more} more: \`follow-up batch status ${batchId} --json\``);
  return {
    headline: `${endedOf(status)} of ${status.total} ended${suffixOf(status, at)}`,
    rows: [
      ['batch', code(batchId)],
      ...live,
      ['open at most', !ended && String(status.maxOpen)],
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
  const { open = 0, waitingForBudget = 0, waitingToStart = 0 } = status;
  const types = Object.entries(errorsByType).map(([type, count]) => `${type} ${count}`);
  const doubt = unknown > 0 ? `; ${unknown} possibly delivered` : '';
  const waiting = waitingForBudget > 0 ? `, ${waitingForBudget} of them waiting for budget` : '';
  return [
    ['completed', completed > 0 && String(completed)],
    ['archived', archived > 0 && String(archived)],
    ['agent job failed', failed > 0 && String(failed)],
    ['no result', errors > 0 && `${errors} (${types.join(', ')}${doubt})`],
    ['open', open > 0 && `${open}${waiting}`],
    ['not started', waitingToStart > 0 && String(waitingToStart)],
  ];
}

function suffixOf({ ended, cancelled, sealed, hold, cutOff }: KnownStatus, at: At): string {
  if (cutOff !== undefined) return `, ${cutOff} without a result`;
  if (hold) return `, held since ${at(hold.at)}: ${hold.reason}`;
  if (ended) return cancelled ? ', cancelled' : '';
  if (cancelled) return ', being cancelled';
  return sealed ? '' : ', more items may come';
}

function nextSteps({ batchId, ended, sealed, hold, cutOff, ...status }: KnownStatus): string[] {
  const { open = 0, waitingToStart = 0, failed, errors, unknown, stillRunning } = status;
  if (cutOff !== undefined) {
    const running = stillRunning === undefined ? 'perhaps some' : String(stillRunning);
    const runs = stillRunning === 1 ? 'follow-up still runs' : 'follow-ups still run';
    return [`${running} ${runs}: \`follow-up list --batch ${batchId}\``];
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
