import { setTimeout as sleep } from 'node:timers/promises';
import { type BatchHandle, TemporalUnreachableError, WorkerUnavailableError } from '../client/index.js';
import type { FollowUpBatchResult } from '../contract/index.js';
import { type BatchRow, toBatchRow, writeCsvReport } from './batch-report.js';
import { describeBatchProgress, describeBatchResult, exitCodeOfBatch } from './batch-text.js';
import { type Cli, isLive, type Output } from './cli.js';
import { type ExitCode, InterruptedError } from './errors.js';
import type { ProgressText } from './follow-up-text.js';
import { showProgress } from './progress-view.js';
import { safeLine } from './safe-text.js';

/** Settings of {@link awaitBatch}. */
export interface AwaitBatchOptions {
  signal: AbortSignal;
  /** File for the report as CSV; `-` is stdout. */
  csv?: string | undefined;
  /** Added to the JSON document. */
  data?: Record<string, unknown>;
}

/** A live display may move each second; as lines, a batch of thousands would fill the log. */
const LIVE_INTERVAL_MS = 1_000;
const LINE_INTERVAL_MS = 5_000;

/**
 * Shows how a batch goes until it has ended, then its result and reports.
 *
 * @throws InterruptedError that says how to come back; what `BatchHandle.result` throws
 */
export async function awaitBatch({ output }: Cli, batch: BatchHandle, options: AwaitBatchOptions): Promise<ExitCode> {
  const { signal, csv, data = {} } = options;
  const { batchId, workflowId } = batch;
  const result = await showUntilEnd(output, batch, signal);
  const rows = output.json || csv !== undefined ? await readRows(batch) : [];
  if (csv !== undefined) await writeCsvReport(output, csv, rows);
  const text = describeBatchResult(batchId, result);
  const { items: _some, truncated: _truncated, ...counts } = result;
  if (csv === '-') output.note(text);
  else output.data({ batchId, workflowId, ...data, ...counts, items: rows }, text);
  return exitCodeOfBatch(result);
}

/** Every item of a batch as the reports have it. */
async function readRows(batch: BatchHandle): Promise<BatchRow[]> {
  const rows: BatchRow[] = [];
  for await (const item of batch.list()) rows.push(toBatchRow(item));
  return rows;
}

async function showUntilEnd(output: Output, batch: BatchHandle, signal: AbortSignal): Promise<FollowUpBatchResult> {
  let outcome = (): FollowUpBatchResult => {
    throw new Error('not waited for');
  };
  const work = async (report: (progress: ProgressText) => void) => {
    const ended = new AbortController();
    const watching = watch(batch, report, isLive(output.stderr) ? LIVE_INTERVAL_MS : LINE_INTERVAL_MS, ended.signal);
    try {
      const result = await batch.result({ signal });
      outcome = () => result;
      // How, the result says.
      return 'ended';
    } catch (error) {
      const told = withWayBack(error, batch);
      outcome = () => {
        throw told;
      };
      throw told;
    } finally {
      ended.abort();
      await watching;
    }
  };
  await showProgress(output, [{ label: `batch ${batch.batchId}`, work }]);
  return outcome();
}

/** Reports again and again how the batch stands. What goes wrong here is only shown: the wait for the result decides. */
async function watch(
  batch: BatchHandle,
  report: (progress: ProgressText) => void,
  intervalMs: number,
  ended: AbortSignal,
): Promise<void> {
  while (!ended.aborted) {
    const progress = await look(batch);
    // An answer that comes after the end is old.
    if (progress && !isAborted(ended)) report(progress);
    await sleep(intervalMs, undefined, { signal: ended }).catch(() => undefined);
  }
}

function isAborted({ aborted }: AbortSignal): boolean {
  return aborted;
}

async function look(batch: BatchHandle): Promise<ProgressText | undefined> {
  try {
    return describeBatchProgress(await batch.status());
  } catch (error) {
    const isPassing = error instanceof WorkerUnavailableError || error instanceof TemporalUnreachableError;
    return isPassing ? { headline: `progress unavailable: ${safeLine(error.reason)}`, timing: '' } : undefined;
  }
}

function withWayBack(error: unknown, { batchId, workflowId }: BatchHandle): unknown {
  if (error instanceof InterruptedError) {
    error.workflowId = workflowId;
    error.message = `interrupted; the batch goes on. Look at it with: follow-up batch status ${batchId}`;
  }
  return error;
}
