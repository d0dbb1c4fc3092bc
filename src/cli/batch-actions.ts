import { createInterface } from 'node:readline/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type BatchHandle,
  type RetryChoice,
  type StartedBatch,
  TemporalUnreachableError,
  WorkerUnavailableError,
} from '../client/index.js';
import { type BatchItem, batchItemKey, type FollowUpBatchResult, followUpWorkflowId } from '../contract/index.js';
import { safeLine } from '../terminal-text.js';
import { type BatchInputOptions, type CheckedBatch, readBatchInput } from './batch-file.js';
import { type BatchRow, checkReportFile, toBatchRow, writeCsvReport } from './batch-report.js';
import {
  describeBatch,
  describeBatchProgress,
  describeBatchResult,
  exitCodeOfBatch,
  isFailure,
  SHOWN_FAILURES,
} from './batch-text.js';
import {
  type Cli,
  ExitCode,
  InterruptedError,
  interruptible,
  isLive,
  type Output,
  StartUnknownError,
  UsageError,
} from './cli.js';
import { describeTrouble, type ProgressText } from './follow-up-text.js';
import { showProgress } from './progress-view.js';
import { sayWhenUnattended, withTemporal } from './temporal-session.js';

interface BatchRunOptions extends BatchInputOptions {
  wait: boolean;
  csv?: string;
}

interface BatchRetryOptions {
  only?: RetryChoice;
  yes?: boolean;
  wait: boolean;
  csv?: string;
}

/** `follow-up batch run` */
export async function runBatch(cli: Cli, file: string | undefined, options: BatchRunOptions): Promise<ExitCode> {
  const { csv, wait } = options;
  await checkReportFile(csv, cli.output.json);
  const checked = await readBatchInput(cli.io, file, options);
  const { batchId, items } = checked;
  return withTemporal(cli, (session) =>
    interruptible(cli, async (signal) => {
      const { maxOpen, defaults } = checked;
      const input = { id: batchId, items: items.map(({ input: item }) => item), maxOpen, defaults };
      const [batch] = await Promise.all([
        session.followUps.startBatch(input, { signal }).catch((error: unknown) => {
          throw withWayOn(error, batchId);
        }),
        sayWhenUnattended(session, cli.output),
      ]);
      reportStart(cli, batch, items.length);
      if (wait) return awaitBatch(cli, batch, { signal, csv, data: { alreadyStarted: batch.alreadyStarted } });
      printIds(cli, batch, checked);
      return ExitCode.ok;
    }),
  );
}

/** `follow-up batch retry` */
export async function retryBatch(cli: Cli, retryOf: string, options: BatchRetryOptions): Promise<ExitCode> {
  const { only, wait, csv, yes = false } = options;
  const { output } = cli;
  await checkReportFile(csv, output.json);
  return withTemporal(cli, ({ followUps }) =>
    interruptible(cli, async (signal) => {
      const { input, unknown, delivered, open } = await followUps.batch(retryOf).planRetry({ only });
      if (delivered > 0) output.note(`${delivered} skipped: they were delivered after all`);
      if (open > 0) output.note(`${open} skipped: their follow-ups still run`);
      if (unknown > 0 && !yes) await confirmUnknown(cli, unknown, signal);
      const batch = await followUps.startBatch(input, { signal });
      const { batchId, workflowId, alreadyStarted } = batch;
      output.note(
        alreadyStarted
          ? `this retry was started before, as batch ${batchId}: nothing is sent a second time`
          : `started ${workflowId}`,
      );
      if (wait) return awaitBatch(cli, batch, { signal, csv, data: { retryOf, alreadyStarted } });
      output.data({ batchId, workflowId, retryOf, alreadyStarted }, batchId);
      return ExitCode.ok;
    }),
  );
}

/** @throws UsageError unless a person at a terminal confirms */
async function confirmUnknown({ io, output }: Cli, count: number, signal: AbortSignal): Promise<void> {
  const doubt = `whether the message was delivered is not known of ${count} of the items`;
  const refusal = `${doubt}: --yes sends them again, though they may then be delivered twice; --only failed leaves them out`;
  const isAtTerminal = 'isTTY' in io.stdin && io.stdin.isTTY === true && isLive(output.stderr);
  if (output.json || !isAtTerminal) throw new UsageError(refusal);
  const asking = createInterface({ input: io.stdin, output: output.stderr });
  try {
    const question = `${doubt}; send them again, though they may be delivered twice? [y/N] `;
    const word = await asking.question(question, { signal });
    if (!/^y(es)?$/i.test(word.trim())) throw new UsageError(refusal);
  } finally {
    asking.close();
  }
}

function reportStart({ output }: Cli, { batchId, workflowId, alreadyStarted }: StartedBatch, count: number): void {
  const items = `${count} ${count === 1 ? 'item' : 'items'}`;
  output.note(
    alreadyStarted
      ? `batch ${batchId} was started before with these ${items}: nothing is sent a second time`
      : `started ${workflowId} with ${items}`,
  );
}

function printIds(
  { output }: Cli,
  { workflowId, alreadyStarted }: StartedBatch,
  { batchId, items }: CheckedBatch,
): void {
  const rows = items.map(({ line, input: { projectId, jobId } }, index) => ({
    index,
    line,
    projectId,
    jobId,
    workflowId: followUpWorkflowId({ projectId, jobId, key: batchItemKey(batchId, index) }),
  }));
  output.data({ batchId, workflowId, alreadyStarted, total: items.length, items: rows }, batchId);
}

/** Items that were handed over stay; the same command continues after them. */
function withWayOn(error: unknown, batchId: string): unknown {
  if (error instanceof InterruptedError) {
    error.message = `interrupted while the items were handed over; the same command with --id ${batchId} continues from there`;
  }
  if (error instanceof TemporalUnreachableError && error.workflowId !== undefined) {
    return new StartUnknownError(error, error.workflowId, 'the same command');
  }
  return error;
}

interface BatchStatusOptions {
  watch?: boolean;
  csv?: string;
}

/** `follow-up batch status` */
export async function showBatch(cli: Cli, batchId: string, { watch, csv }: BatchStatusOptions): Promise<ExitCode> {
  const { output } = cli;
  await checkReportFile(csv, output.json);
  return withTemporal(cli, async ({ followUps }) => {
    const batch = followUps.batch(batchId);
    if (watch === true) return interruptible(cli, (signal) => awaitBatch(cli, batch, { signal, csv }));
    const status = await batch.status();
    const wantsRows = output.json || csv !== undefined;
    const failureCount = Math.min(SHOWN_FAILURES, status.failed + status.errors);
    const failures: BatchItem[] = [];
    const rows: BatchRow[] = [];
    if (wantsRows || failureCount > 0) {
      for await (const item of batch.list()) {
        if (failures.length < failureCount && isFailure(item)) failures.push(item);
        if (wantsRows) rows.push(toBatchRow(item));
        else if (failures.length >= failureCount) break;
      }
    }
    const troubles = status.ended || status.cutOff !== undefined ? [] : await batch.troubles();
    const text = [describeBatch(status, failures), ...troubles.map(describeTrouble)].join('\n');
    if (csv !== undefined) await writeCsvReport(output, csv, rows);
    if (csv === '-') output.note(text);
    else {
      const { workflowId } = batch;
      output.data({ workflowId, ...status, ...(troubles.length > 0 && { troubles }), items: rows }, text);
    }
    return ExitCode.ok;
  });
}

/** `follow-up batch cancel` */
export async function cancelBatch({ env, output }: Cli, batchId: string): Promise<void> {
  await withTemporal({ env, output }, async ({ followUps }) => {
    const batch = followUps.batch(batchId);
    await batch.cancel();
    output.data(
      { batchId, workflowId: batch.workflowId, cancelRequested: true },
      `asked batch ${batchId} to end; how it ends is shown by: follow-up batch status ${batchId} --watch`,
    );
  });
}

/** Options of {@link awaitBatch}. */
interface AwaitBatchOptions {
  signal: AbortSignal;
  /** File for the CSV report; `-` is stdout. */
  csv?: string | undefined;
  /** Added to the JSON document. */
  data?: Record<string, unknown>;
}

/** A live display may change every second; printed as lines, a batch of thousands would fill the log. */
const LIVE_INTERVAL_MS = 1_000;
const LINE_INTERVAL_MS = 5_000;

/**
 * Shows the progress of a batch until it ends, then its result and reports.
 *
 * @throws InterruptedError that tells the command to continue with; what `BatchHandle.result` throws
 */
async function awaitBatch({ output }: Cli, batch: BatchHandle, options: AwaitBatchOptions): Promise<ExitCode> {
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

/** The report rows of all items of a batch. */
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
      // The result says how.
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

/** Reports the state of the batch at each interval. Errors are only shown here: the wait for the result decides. */
async function watch(
  batch: BatchHandle,
  report: (progress: ProgressText) => void,
  intervalMs: number,
  ended: AbortSignal,
): Promise<void> {
  while (!ended.aborted) {
    const progress = await look(batch);
    // An answer that arrives after the end is out of date.
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
    error.message = `interrupted; the batch continues. To see it, run: follow-up batch status ${batchId}`;
  }
  return error;
}
