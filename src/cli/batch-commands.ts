import { type Command, Option } from 'commander';
import { retryChoices } from '../contract/choices.js';
import {
  addLimitOptions,
  addPromptOptions,
  addSettingOptions,
  type LazyAction,
  withCommonOptions,
} from './command-options.js';

/** `follow-up batch …` */
export function addBatchCommands(program: Command, action: LazyAction): void {
  const batch = program.command('batch').description('send messages to many agent jobs, and manage these batches');
  const named = (name: string, description: string) =>
    batch.command(name).description(description).argument('<batch>', 'batch id');

  const run = batch
    .command('run')
    .description('send many follow-ups; the whole file is checked before anything is sent')
    .argument('[file]', 'one input as JSON per line, {"projectId":…,"jobId":…,"prompt":…}; - reads stdin')
    .requiredOption('--id <id>', 'id of the batch (required); the same id never sends a second message')
    .option('--jobs <file>', 'instead of FILE: one job id per line, with --project and a prompt for all; - reads stdin')
    .option('--project <project>', 'with --jobs: the project of the jobs');
  addLimitOptions(addPromptOptions(run));
  addSettingOptions(run, 'batch')
    .option('--dry-run', 'check the file, show what would be sent and how long it takes at least, and send nothing')
    .option('--no-wait', 'start it and print its id (--json: also those of its items), without waiting');
  withCommonOptions(run, 'follow-up batch run list.jsonl --id nightly-2026-11-21 --canary 5').action(
    action(async () => (await import('./batch.js')).runBatch),
  );

  const status = named('status', 'show a batch: counts, failures, whether it is held; with --json every item').option(
    '-w, --watch',
    'wait until it has ended; exit code as with "batch run"',
  );
  withCommonOptions(status, 'follow-up batch status nightly-2026-11-21').action(
    action(async () => (await import('./batch.js')).showBatch),
  );

  const proceed = named('continue', 'let a held batch go on; counts failures from 0 again');
  withCommonOptions(proceed, 'follow-up batch continue nightly-2026-11-21').action(
    action(async () => (await import('./batch.js')).continueBatch),
  );

  const retry = named('retry', 'send the failed items of an ended batch again, as a new batch')
    .addOption(
      new Option(
        '--only <which>',
        'failed: the agent job failed, or nothing was delivered; unknown: nobody can tell whether the message was delivered, so it may be delivered twice (default: both)',
      ).choices(retryChoices),
    )
    .option('--yes', 'also send items that may have been delivered')
    .option('--no-wait', 'start it and print its id, without waiting');
  withCommonOptions(retry, 'follow-up batch retry nightly-2026-11-21 --only unknown').action(
    action(async () => (await import('./batch.js')).retryBatch),
  );

  const cancel = named(
    'cancel',
    'cancel a batch: nothing more is sent; sent items are reported, and their jobs continue',
  );
  withCommonOptions(cancel, 'follow-up batch cancel nightly-2026-11-21').action(
    action(async () => (await import('./batch.js')).cancelBatch),
  );
}
