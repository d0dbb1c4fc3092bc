import type { Command } from 'commander';
import {
  FollowUpClientError,
  type FollowUpHandle,
  TemporalUnreachableError,
  WorkerUnavailableError,
} from '../client/index.js';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { describeResult } from './follow-up-text.js';
import { clock, describeUpdate } from './progress-text.js';
import { classify } from './report-error.js';
import { safeLine } from './safe-text.js';
import { withTemporal } from './temporal-session.js';

/** `follow-up status` */
export function addStatusCommand(program: Command, cli: Cli): void {
  const command = program
    .command('status')
    .description('show where a follow-up stands: state, place in the queue, job, next poll, last error, result')
    .argument('<workflowId>', 'as "follow-up send" and "follow-up list" print it');
  withCommonOptions(command, 'follow-up status follow-up/my-project/job-42/parser-tests').action(
    async (workflowId: string) => {
      cli.exitCode = await withTemporal(cli.env, async ({ followUps }) => {
        await showStatus(cli, followUps.handle(workflowId));
        return ExitCode.ok;
      });
    },
  );
}

async function showStatus({ output }: Cli, followUp: FollowUpHandle): Promise<void> {
  const summary = await followUp.describe();
  if (summary.status !== 'running') {
    const end = await lookAtEnd(followUp);
    const text =
      'result' in end ? describeResult(summary.workflowId, end.result) : `error: ${safeLine(end.error.message)}`;
    output.data(
      { ...summary, ...end },
      `${summary.status}${summary.endedAt ? ` ${clock(summary.endedAt)}` : ''}\n${text}`,
    );
    return;
  }
  const live = await lookAtProgress(followUp);
  const { headline, timing } = describeUpdate({ summary, ...live });
  const prLink = live.progress?.prLink ?? summary.prLink;
  const lines = [headline, timing, prLink ? `pull request  ${safeLine(prLink)}` : ''];
  output.data({ ...summary, ...live }, lines.filter(Boolean).join('\n'));
}

async function lookAtProgress(followUp: FollowUpHandle) {
  try {
    return { progress: await followUp.progress() };
  } catch (error) {
    if (!(error instanceof WorkerUnavailableError)) throw error;
    return { progressUnavailable: error.reason };
  }
}

async function lookAtEnd(followUp: FollowUpHandle) {
  try {
    return { result: await followUp.result() };
  } catch (error) {
    if (!(error instanceof FollowUpClientError) || error instanceof TemporalUnreachableError) throw error;
    return { error: classify(error).report };
  }
}
