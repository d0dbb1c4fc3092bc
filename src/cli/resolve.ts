import type { Command } from 'commander';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { UsageError } from './report-error.js';
import { withTemporal } from './temporal-session.js';

/** `follow-up resolve` */
export function addResolveCommand(program: Command, cli: Cli): void {
  const command = program
    .command('resolve')
    .description('tell a follow-up that is reconciling whether its message was delivered')
    .argument('<workflowId>', 'as "follow-up send" and "follow-up list" print it')
    .argument('<word>', 'sent or notSent; after notSent the message is sent again');
  withCommonOptions(command, 'follow-up resolve follow-up/my-project/job-42/parser-tests sent').action(
    async (workflowId: string, word: string) => {
      if (word !== 'sent' && word !== 'notSent') {
        throw new UsageError(`word: must be sent or notSent (given ${JSON.stringify(word)})`);
      }
      await withTemporal(cli.env, ({ followUps }) => followUps.handle(workflowId).resolve(word));
      cli.output.data({ workflowId, resolved: word }, `${workflowId} takes it as ${word}`);
      cli.exitCode = ExitCode.ok;
    },
  );
}
