import { type Command, Option } from 'commander';
import { retryChoices } from '../contract/choices.js';
import { addPromptOptions, addSettingOptions, type LazyAction, withCommonOptions } from './command-options.js';

/** `follow-up batch …` */
export function addBatchCommands(program: Command, action: LazyAction): void {
  const batch = program.command('batch').description('send messages to many agent jobs, and manage these batches');

  const run = batch
    .command('run')
    .description('send many follow-ups; the whole file is checked before anything is sent')
    .argument(
      '[file]',
      'one input as JSON per line, {"projectId":…,"jobId":…,"prompt":…}, or a JSON list of inputs; - reads stdin',
    )
    .requiredOption('--id <id>', 'id of the batch (required); the same id never sends a second message')
    .option('--jobs <file>', 'instead of FILE: one job id per line, with --project and a prompt for all; - reads stdin')
    .option('--project <project>', 'with --jobs: the project of the jobs');
  addPromptOptions(run)
    .option('--max-open <number>', 'maximum number of open follow-ups (default: 50)')
    .option('--allow-duplicates', 'allow items with the same project, job and prompt');
  addSettingOptions(run, 'batch')
    .option('--no-wait', 'start it and print its id (--json: also those of its items), without waiting')
    .option('--csv <file>', 'write a CSV file with a row per item at the end; - writes to stdout');
  withCommonOptions(run, 'follow-up batch run list.jsonl --id nightly-2026-11-21 --csv report.csv').action(
    action(async () => (await import('./batch-actions.js')).runBatch),
  );

  const status = batch
    .command('status')
    .description('show a batch: counts, failures, expected end; with --json or --csv every item')
    .argument('<batch>', 'batch id')
    .option('-w, --watch', 'wait until it has ended; exit code and CSV file as with "batch run"')
    .option('--csv <file>', 'write a CSV file with a row per item; - writes to stdout');
  withCommonOptions(status, 'follow-up batch status nightly-2026-11-21 --csv report.csv').action(
    action(async () => (await import('./batch-actions.js')).showBatch),
  );

  const retry = batch
    .command('retry')
    .description('send the failed items of an ended batch again, as a new batch; repeating it sends nothing more')
    .argument('<batch>', 'batch id')
    .addOption(
      new Option(
        '--only <which>',
        'failed: the agent job failed, or nothing was delivered; unknown: nobody can tell whether the message was delivered, so it may be delivered twice (default: both)',
      ).choices(retryChoices),
    )
    .option('--yes', 'do not ask before sending items that may have been delivered')
    .option('--no-wait', 'start it and print its id, without waiting')
    .option('--csv <file>', 'write a CSV file with a row per item at the end; - writes to stdout');
  withCommonOptions(retry, 'follow-up batch retry nightly-2026-11-21 --only unknown').action(
    action(async () => (await import('./batch-actions.js')).retryBatch),
  );

  const cancel = batch
    .command('cancel')
    .description('cancel a batch: nothing more is sent; sent items are reported, and their jobs continue')
    .argument('<batch>', 'batch id');
  withCommonOptions(cancel, 'follow-up batch cancel nightly-2026-11-21').action(
    action(async () => (await import('./batch-actions.js')).cancelBatch),
  );
}
