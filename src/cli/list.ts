import type { Command } from 'commander';
import type { FollowUpSummary } from '../client/index.js';
import { followUpStates } from '../contract/index.js';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { safeLine } from './safe-text.js';
import { withTemporal } from './temporal-session.js';

interface ListOptions {
  project?: string;
  state?: string;
  batch?: string;
}

/** `follow-up list` */
export function addListCommand(program: Command, cli: Cli): void {
  const command = program
    .command('list')
    .description('list follow-ups, newest first')
    .option('--project <id>', "only this project's")
    .option('--state <state>', `only those in this state: ${followUpStates.join(', ')}`)
    .option('--batch <id>', 'only those of this batch');
  withCommonOptions(command, 'follow-up list --project my-project --state waiting-for-budget').action(
    async ({ project, state, batch }: ListOptions) => {
      cli.exitCode = await withTemporal(cli.env, async ({ followUps }) => {
        const filter = {
          ...(project !== undefined && { project }),
          ...(state !== undefined && { state }),
          ...(batch !== undefined && { batch }),
        };
        let count = 0;
        for await (const summary of followUps.list(filter)) {
          cli.output.data(summary, describeSummary(summary));
          count++;
        }
        if (count === 0) cli.output.note('no follow-ups found; a new one may take a second to be listed');
        return ExitCode.ok;
      });
    },
  );
}

function describeSummary({ workflowId, status, state, jobStatus, prLink, startedAt }: FollowUpSummary): string {
  const standing = status === 'running' ? (state ?? 'starting') : status;
  return [startedAt, standing.padEnd(18), (jobStatus ?? '-').padEnd(9), workflowId, prLink ?? '']
    .map((part) => (part.endsWith(' ') ? part : safeLine(part)))
    .join('  ')
    .trimEnd();
}
