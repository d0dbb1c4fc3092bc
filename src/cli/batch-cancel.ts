import type { Command } from 'commander';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { withTemporal } from './temporal-session.js';

/** `follow-up batch cancel` */
export function addBatchCancelCommand(batch: Command, cli: Cli): void {
  const command = batch
    .command('cancel')
    .description('send nothing more of a batch; what was sent before is reported, and the agent jobs run on')
    .argument('<batch>', 'batch id');
  withCommonOptions(command, 'follow-up batch cancel nightly-2026-11-21').action(async (batchId: string) => {
    await withTemporal(cli.env, async ({ followUps }) => {
      const handle = followUps.batch(batchId);
      await handle.cancel();
      const { workflowId } = handle;
      cli.output.data(
        { batchId, workflowId, cancelRequested: true },
        `asked batch ${batchId} to end; how it ends is shown by: follow-up batch status ${batchId} --watch`,
      );
    });
    cli.exitCode = ExitCode.ok;
  });
}
