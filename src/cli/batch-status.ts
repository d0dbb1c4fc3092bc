import type { Command } from 'commander';
import type { BatchHandle } from '../client/index.js';
import type { BatchItem } from '../contract/index.js';
import { awaitBatch } from './await-batch.js';
import { type BatchRow, checkReportFile, toBatchRow, writeCsvReport } from './batch-report.js';
import { describeBatch, isFailure, SHOWN_FAILURES } from './batch-text.js';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { interruptible } from './interrupt.js';
import { describeTrouble } from './progress-text.js';
import { withTemporal } from './temporal-session.js';

interface BatchStatusOptions {
  watch?: boolean;
  csv?: string;
}

/** `follow-up batch status` */
export function addBatchStatusCommand(batch: Command, cli: Cli): void {
  const command = batch
    .command('status')
    .description(
      'show where a batch stands: counts, failures, when it is expected to end; --json and --csv: every item',
    )
    .argument('<batch>', 'batch id')
    .option('-w, --watch', 'go on until it has ended; exit code and report as with "batch run"')
    .option('--csv <file>', 'write a report with a row an item; - is stdout');
  withCommonOptions(command, 'follow-up batch status nightly-2026-11-21 --csv report.csv').action(
    async (batchId: string, options: BatchStatusOptions) => {
      const { watch = false, csv } = options;
      await checkReportFile(csv, cli.output.json);
      cli.exitCode = await withTemporal(cli.env, ({ followUps }) => {
        const handle = followUps.batch(batchId);
        if (watch) return interruptible((signal) => awaitBatch(cli.output, handle, { signal, csv }));
        return showBatch(cli, handle, csv);
      });
    },
  );
}

async function showBatch({ output }: Cli, batch: BatchHandle, csv: string | undefined): Promise<ExitCode> {
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
  else
    output.data(
      { workflowId: batch.workflowId, ...status, ...(troubles.length > 0 && { troubles }), items: rows },
      text,
    );
  return ExitCode.ok;
}
