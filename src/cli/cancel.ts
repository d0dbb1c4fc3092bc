import type { Command } from 'commander';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { withTemporal } from './temporal-session.js';

/** `follow-up cancel` */
export function addCancelCommand(program: Command, cli: Cli): void {
  const command = program
    .command('cancel')
    .description('ask a follow-up to end: before the send nothing is sent, after it the agent job itself runs on')
    .argument('<workflowId>', 'as "follow-up send" and "follow-up list" print it');
  withCommonOptions(command, 'follow-up cancel follow-up/my-project/job-42/parser-tests').action(
    async (workflowId: string) => {
      await withTemporal(cli.env, ({ followUps }) => followUps.handle(workflowId).cancel());
      cli.output.data({ workflowId, cancelRequested: true }, `asked ${workflowId} to end`);
      cli.exitCode = ExitCode.ok;
    },
  );
}
