import type { Command } from 'commander';
import type { StartedBatch } from '../client/index.js';
import { batchItemKey, followUpWorkflowId } from '../contract/index.js';
import { awaitBatch } from './await-batch.js';
import { type BatchInputOptions, type CheckedBatch, readBatchInput } from './batch-input.js';
import { checkReportFile } from './batch-report.js';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { addPromptOptions, addSettingOptions } from './follow-up-options.js';
import { interruptible, InterruptedError } from './interrupt.js';
import { withTemporal } from './temporal-session.js';

interface BatchRunOptions extends BatchInputOptions {
  wait: boolean;
  csv?: string;
}

/** `follow-up batch run` */
export function addBatchRunCommand(batch: Command, cli: Cli): void {
  const command = batch
    .command('run')
    .description(
      'send a follow-up message to each of many agent jobs; the file is checked whole before anything is sent',
    )
    .argument('[file]', 'an input as JSON a line, {"projectId":…,"jobId":…,"prompt":…}; - is stdin')
    .requiredOption('--id <id>', 'id of the batch: the same id is the same batch, and never sends a second message')
    .option('--jobs <file>', 'instead of FILE: a job id a line, for --project, all with the same prompt; - is stdin')
    .option('--project <id>', 'with --jobs: their project');
  addPromptOptions(command)
    .option('--max-open <number>', 'follow-ups that are open at a time (default: 50)')
    .option('--allow-duplicates', 'take lines with the same project, job and prompt');
  addSettingOptions(command, 'batch')
    .option('--no-wait', 'only start it, and print its ids')
    .option('--csv <file>', 'write a report with a row an item at the end; - is stdout');
  withCommonOptions(command, 'follow-up batch run list.jsonl --id nightly-2026-11-21 --csv report.csv').action(
    async (file: string | undefined, options: BatchRunOptions) => {
      cli.exitCode = await runBatch(cli, file, options);
    },
  );
}

async function runBatch(cli: Cli, file: string | undefined, options: BatchRunOptions): Promise<ExitCode> {
  const { csv, wait } = options;
  await checkReportFile(csv, cli.output.json);
  const checked = await readBatchInput(file, options);
  const { batchId, items } = checked;
  return withTemporal(cli.env, ({ followUps }) =>
    interruptible(async (signal) => {
      const { maxOpen, defaults } = checked;
      const batch = await followUps
        .startBatch({ id: batchId, items: items.map(({ input }) => input), maxOpen, defaults }, { signal })
        .catch((error: unknown) => {
          throw withWayOn(error, batchId);
        });
      reportStart(cli, batch, items.length);
      if (wait) {
        return awaitBatch(cli.output, batch, { signal, csv, data: { alreadyStarted: batch.alreadyStarted } });
      }
      printIds(cli, batch, checked);
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
