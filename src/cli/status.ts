import type { Command } from 'commander';
import {
  type FollowUpClient,
  FollowUpClientError,
  type FollowUpHandle,
  TemporalUnreachableError,
  WorkerUnavailableError,
  type WorkflowTrouble,
} from '../client/index.js';
import type { FollowUpProgress } from '../contract/index.js';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { describeResult } from './follow-up-text.js';
import { clock, describeTrouble, describeUpdate } from './progress-text.js';
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
        await showStatus(cli, followUps, followUps.handle(workflowId));
        return ExitCode.ok;
      });
    },
  );
}

async function showStatus({ output }: Cli, followUps: FollowUpClient, followUp: FollowUpHandle): Promise<void> {
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
  const troubles = await lookForTrouble(followUps, followUp, live.progress);
  const { headline, timing } = describeUpdate({ summary, ...live });
  const prLink = live.progress?.prLink ?? summary.prLink;
  const lines = [headline, timing, prLink ? `pull request  ${safeLine(prLink)}` : '', ...troubles.map(describeTrouble)];
  output.data({ ...summary, ...live, ...(troubles.length > 0 && { troubles }) }, lines.filter(Boolean).join('\n'));
}

/** What keeps it, or before its send the project's budget, from going on. */
async function lookForTrouble(
  followUps: FollowUpClient,
  followUp: FollowUpHandle,
  progress: FollowUpProgress | undefined,
): Promise<WorkflowTrouble[]> {
  const { projectId } = await followUp.describe();
  const waits = progress === undefined || progress.sentAt === undefined;
  const found = await Promise.all([followUp.trouble(), waits ? followUps.budget(projectId).trouble() : undefined]);
  return found.filter((trouble) => trouble !== undefined);
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
