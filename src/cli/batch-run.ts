import type { RetryChoice, StartedBatch } from '../client/index.js';
import { batchItemKey, followUpWorkflowId } from '../contract/index.js';
import { awaitBatch } from './await-batch.js';
import { type BatchInputOptions, type CheckedBatch, readBatchInput } from './batch-input.js';
import { checkReportFile } from './batch-report.js';
import { type Cli, interruptible } from './cli.js';
import { ExitCode, InterruptedError } from './errors.js';
import { withTemporal } from './temporal-session.js';

interface BatchRunOptions extends BatchInputOptions {
  wait: boolean;
  csv?: string;
}

interface BatchRetryOptions {
  only?: RetryChoice;
  wait: boolean;
  csv?: string;
}

/** `follow-up batch run` */
export async function runBatch(cli: Cli, file: string | undefined, options: BatchRunOptions): Promise<ExitCode> {
  const { csv, wait } = options;
  await checkReportFile(csv, cli.output.json);
  const checked = await readBatchInput(cli.io, file, options);
  const { batchId, items } = checked;
  return withTemporal(cli.env, ({ followUps }) =>
    interruptible(cli, async (signal) => {
      const { maxOpen, defaults } = checked;
      const batch = await followUps
        .startBatch({ id: batchId, items: items.map(({ input }) => input), maxOpen, defaults }, { signal })
        .catch((error: unknown) => {
          throw withWayOn(error, batchId);
        });
      reportStart(cli, batch, items.length);
      if (wait) return awaitBatch(cli, batch, { signal, csv, data: { alreadyStarted: batch.alreadyStarted } });
      printIds(cli, batch, checked);
      return ExitCode.ok;
    }),
  );
}

/** `follow-up batch retry` */
export async function retryBatch(cli: Cli, retryOf: string, options: BatchRetryOptions): Promise<ExitCode> {
  const { only, wait, csv } = options;
  const { output } = cli;
  await checkReportFile(csv, output.json);
  return withTemporal(cli.env, ({ followUps }) =>
    interruptible(cli, async (signal) => {
      const batch = await followUps.batch(retryOf).retry({ only, signal });
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
  output.data({ batchId, workflowId, alreadyStarted, total: items.length, items: rows }, workflowId);
}

/** What was handed over stays; the same command goes on behind it. */
function withWayOn(error: unknown, batchId: string): unknown {
  if (error instanceof InterruptedError) {
    error.message = `interrupted while the items were handed over; the same command with --id ${batchId} goes on from there`;
  }
  return error;
}
