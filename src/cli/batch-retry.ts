import { type Command, Option } from 'commander';
import { type RetryChoice, retryChoices } from '../client/index.js';
import { awaitBatch } from './await-batch.js';
import { checkReportFile } from './batch-report.js';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { interruptible } from './interrupt.js';
import { withTemporal } from './temporal-session.js';

interface BatchRetryOptions {
  only?: RetryChoice;
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
    .option('--no-wait', 'only start it, and print its id')
    .option('--csv <file>', 'write a report with a row an item at the end; - is stdout');
  withCommonOptions(command, 'follow-up batch retry nightly-2026-11-21 --only unknown').action(
    async (batchId: string, options: BatchRetryOptions) => {
      cli.exitCode = await retryBatch(cli, batchId, options);
    },
  );
}

async function retryBatch({ env, output }: Cli, retryOf: string, options: BatchRetryOptions): Promise<ExitCode> {
  const { only, wait, csv } = options;
  await checkReportFile(csv, output.json);
  return withTemporal(env, ({ followUps }) =>
    interruptible(async (signal) => {
      const batch = await followUps.batch(retryOf).retry({ only, signal });
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
