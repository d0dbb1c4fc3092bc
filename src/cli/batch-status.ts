import type { BatchItem } from '../contract/index.js';
import { awaitBatch } from './await-batch.js';
import { type BatchRow, checkReportFile, toBatchRow, writeCsvReport } from './batch-report.js';
import { describeBatch, isFailure, SHOWN_FAILURES } from './batch-text.js';
import { type Cli, interruptible } from './cli.js';
import { ExitCode } from './errors.js';
import { describeTrouble } from './follow-up-text.js';
import { withTemporal } from './temporal-session.js';

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
