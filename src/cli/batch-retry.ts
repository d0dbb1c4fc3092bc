import { createInterface } from 'node:readline/promises';
import { type Command, Option } from 'commander';
import { type RetryChoice, retryChoices } from '../client/index.js';
import { awaitBatch } from './await-batch.js';
import { checkReportFile } from './batch-report.js';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { interruptible } from './interrupt.js';
import type { Output } from './output.js';
import { UsageError } from './report-error.js';
import { withTemporal } from './temporal-session.js';

interface BatchRetryOptions {
  only?: RetryChoice;
  yes?: boolean;
  wait: boolean;
  csv?: string;
}

/** `follow-up batch retry` */
export function addBatchRetryCommand(batch: Command, cli: Cli): void {
  const command = batch
    .command('retry')
    .description('send the items of an ended batch again that failed, as a new batch; repeated it finds that batch')
    .argument('<batch>', 'batch id')
    .addOption(
      new Option(
        '--only <which>',
        'unknown: whether the message was delivered cannot be told, it may be delivered twice; failed: the agent job failed, or nothing was delivered (default: both)',
      ).choices(retryChoices),
    )
    .option('--yes', 'also send items that may have been delivered already, without asking')
    .option('--no-wait', 'only start it, and print its id')
    .option('--csv <file>', 'write a report with a row an item at the end; - is stdout');
  withCommonOptions(command, 'follow-up batch retry nightly-2026-11-21 --only unknown').action(
    async (batchId: string, options: BatchRetryOptions) => {
      cli.exitCode = await retryBatch(cli, batchId, options);
    },
  );
}

/** @throws UsageError unless somebody at a terminal says yes */
async function confirmUnknown(count: number, { stderr, json }: Output, signal: AbortSignal): Promise<void> {
  const doubt = `whether the message was delivered is not known of ${count} of the items`;
  const refusal = `${doubt}: --yes sends them again, though they may then be delivered twice; --only failed leaves them out`;
  if (json || !process.stdin.isTTY || !stderr.isTTY) throw new UsageError(refusal);
  const asking = createInterface({ input: process.stdin, output: stderr });
  try {
    const word = await asking.question(`${doubt}; send them again, though they may be delivered twice? [y/N] `, {
      signal,
    });
    if (!/^y(es)?$/i.test(word.trim())) throw new UsageError(refusal);
  } finally {
    asking.close();
  }
}

async function retryBatch({ env, output }: Cli, retryOf: string, options: BatchRetryOptions): Promise<ExitCode> {
  const { only, wait, csv, yes = false } = options;
  await checkReportFile(csv, output.json);
  return withTemporal(env, ({ followUps }) =>
    interruptible(async (signal) => {
      const plan = await followUps.batch(retryOf).planRetry({ only });
      const { input, unknown, delivered, open } = plan;
      if (delivered > 0) output.note(`${delivered} left out: as is known by now, they were delivered`);
      if (open > 0) output.note(`${open} left out: their follow-ups still run`);
      if (unknown > 0 && !yes) await confirmUnknown(unknown, output, signal);
      const batch = await followUps.startBatch(input, { signal });
      const { batchId, workflowId, alreadyStarted } = batch;
      output.note(
        alreadyStarted
          ? `this retry was started before, as batch ${batchId}: nothing is sent a second time`
          : `started ${workflowId}`,
      );
      if (wait) return awaitBatch(output, batch, { signal, csv, data: { retryOf, alreadyStarted } });
      output.data({ batchId, workflowId, retryOf, alreadyStarted }, batchId);
      return ExitCode.ok;
    }),
  );
}
