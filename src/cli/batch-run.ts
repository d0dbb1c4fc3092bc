import { createInterface } from 'node:readline/promises';
import { type RetryChoice, type StartedBatch, TemporalUnreachableError } from '../client/index.js';
import { batchItemKey, followUpWorkflowId } from '../contract/index.js';
import { awaitBatch } from './await-batch.js';
import { type BatchInputOptions, type CheckedBatch, readBatchInput } from './batch-input.js';
import { checkReportFile } from './batch-report.js';
import { type Cli, interruptible, isLive } from './cli.js';
import { ExitCode, InterruptedError, StartUnknownError, UsageError } from './errors.js';
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
      if (delivered > 0) output.note(`${delivered} left out: as is known by now, they were delivered`);
      if (open > 0) output.note(`${open} left out: their follow-ups still run`);
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

/** @throws UsageError unless somebody at a terminal says yes */
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

/** What was handed over stays; the same command goes on behind it. */
function withWayOn(error: unknown, batchId: string): unknown {
  if (error instanceof InterruptedError) {
    error.message = `interrupted while the items were handed over; the same command with --id ${batchId} goes on from there`;
  }
  if (error instanceof TemporalUnreachableError && error.workflowId !== undefined) {
    return new StartUnknownError(error, error.workflowId, 'the same command');
  }
  return error;
}
