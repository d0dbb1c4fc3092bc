import { type Command, Option } from 'commander';
import { retryChoices } from '../contract/choices.js';
import { addPromptOptions, addSettingOptions, type LazyAction, withCommonOptions } from './options.js';

/** `follow-up batch …` */
export function addBatchCommands(program: Command, action: LazyAction): void {
  const batch = program.command('batch').description('send follow-up messages to many agent jobs, and look after them');

  const run = batch
    .command('run')
    .description(
      'send a follow-up message to each of many agent jobs; the file is checked whole before anything is sent',
    )
    .argument('[file]', 'an input as JSON a line, {"projectId":…,"jobId":…,"prompt":…}; - is stdin')
    .requiredOption('--id <id>', 'id of the batch: the same id is the same batch, and never sends a second message')
    .option('--jobs <file>', 'instead of FILE: a job id a line, for --project, all with the same prompt; - is stdin')
    .option('--project <project>', 'with --jobs: their project');
  addPromptOptions(run)
    .option('--max-open <number>', 'follow-ups that are open at a time (default: 50)')
    .option('--allow-duplicates', 'take lines with the same project, job and prompt');
  addSettingOptions(run, 'batch')
    .option('--no-wait', 'only start it, and print its id; --json: those of its items, too')
    .option('--csv <file>', 'write a report with a row an item at the end; - is stdout');
  withCommonOptions(run, 'follow-up batch run list.jsonl --id nightly-2026-11-21 --csv report.csv').action(
    action(async () => (await import('./batch-run.js')).runBatch),
  );

  const status = batch
    .command('status')
    .description(
      'show where a batch stands: counts, failures, when it is expected to end; --json and --csv: every item',
    )
    .argument('<batch>', 'batch id')
    .option('-w, --watch', 'go on until it has ended; exit code and report as with "batch run"')
    .option('--csv <file>', 'write a report with a row an item; - is stdout');
  withCommonOptions(status, 'follow-up batch status nightly-2026-11-21 --csv report.csv').action(
    action(async () => (await import('./batch-status.js')).showBatch),
  );

  const retry = batch
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
  withCommonOptions(retry, 'follow-up batch retry nightly-2026-11-21 --only unknown').action(
    action(async () => (await import('./batch-run.js')).retryBatch),
  );

  const cancel = batch
    .command('cancel')
    .description('send nothing more of a batch; what was sent before is reported, and the agent jobs run on')
    .argument('<batch>', 'batch id');
  withCommonOptions(cancel, 'follow-up batch cancel nightly-2026-11-21').action(
    action(async () => (await import('./batch-status.js')).cancelBatch),
  );
}
