import type { Command } from 'commander';
import { AUDIT_HEADER, describeSend } from './budget-text.js';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { withTemporal } from './temporal-session.js';

/** `follow-up budget audit` */
export function addBudgetAuditCommand(budget: Command, cli: Cli): void {
  const audit = budget
    .command('audit')
    .description('list the last 100 sends, newest first: when each was granted and settled, and how it ended')
    .argument('<project>', 'project id');
  withCommonOptions(audit, 'follow-up budget audit my-project --json').action(async (projectId: string) => {
    await withTemporal(cli.env, async ({ followUps }) => {
      const sends = await followUps.budget(projectId).audit();
      if (sends.length === 0) cli.output.note(`project ${projectId} has sent nothing`);
      else if (!cli.output.json) cli.output.data(undefined, AUDIT_HEADER);
      for (const send of sends) cli.output.data(send, describeSend(send));
    });
    cli.exitCode = ExitCode.ok;
  });
}
