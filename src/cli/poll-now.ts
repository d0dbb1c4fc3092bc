import type { Command } from 'commander';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { withTemporal } from './temporal-session.js';

/** `follow-up poll-now` */
export function addPollNowCommand(program: Command, cli: Cli): void {
  const command = program
    .command('poll-now')
    .description('ask a follow-up to look at its job now instead of at the next poll')
    .argument('<workflowId>', 'as "follow-up send" and "follow-up list" print it');
  withCommonOptions(command, 'follow-up poll-now follow-up/my-project/job-42/parser-tests').action(
    async (workflowId: string) => {
      await withTemporal(cli.env, ({ followUps }) => followUps.handle(workflowId).pollNow());
      cli.output.data({ workflowId, pollRequested: true }, `asked ${workflowId} to look at its job`);
      cli.exitCode = ExitCode.ok;
    },
  );
}
