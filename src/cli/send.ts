import type { Command } from 'commander';
import { parseStartInput, type StartedFollowUp } from '../client/index.js';
import { awaitFollowUp } from './await-follow-up.js';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { addFollowUpOptions, type FollowUpOptions, toStartInput } from './follow-up-options.js';
import { describeResult, exitCodeOf } from './follow-up-text.js';
import { interruptible, InterruptedError } from './interrupt.js';
import { showProgress } from './progress-view.js';
import { withTemporal } from './temporal-session.js';

interface SendOptions extends FollowUpOptions {
  wait: boolean;
}

/** `follow-up send` */
export function addSendCommand(program: Command, cli: Cli): void {
  const command = program
    .command('send')
    .description('send a follow-up message to an agent job and wait for its pull request')
    .argument('<project>', 'project id')
    .argument('<job>', 'job id')
    .argument('[-]', 'a lone - reads the prompt from stdin');
  addFollowUpOptions(command).option('--no-wait', 'only start it, and print its workflow id');
  withCommonOptions(
    command,
    'follow-up send my-project job-42 --prompt "Add tests for the parser." --key parser-tests',
  ).action(async (project: string, job: string, dash: string | undefined, options: SendOptions) => {
    cli.exitCode = await send(cli, project, job, { ...options, ...(dash !== undefined && { dash }) });
  });
}

async function send(cli: Cli, project: string, job: string, options: SendOptions): Promise<ExitCode> {
  const { key, followUpInput } = parseStartInput(await toStartInput(project, job, options));
  return withTemporal(cli.env, ({ followUps }) =>
    interruptible(async (signal) => {
      const started = await followUps.start({ ...followUpInput, key });
      reportStart(cli, started);
      if (!options.wait) {
        const { workflowId, alreadyStarted, inputDiffers } = started;
        cli.output.data({ workflowId, projectId: project, jobId: job, key, alreadyStarted, inputDiffers }, workflowId);
        return ExitCode.ok;
      }
      return awaitResult(cli, started, signal);
    }),
  );
}

function reportStart({ output }: Cli, { workflowId, key, alreadyStarted, inputDiffers }: StartedFollowUp): void {
  output.note(
    alreadyStarted ? `key ${key} was used before: this is that follow-up, ${workflowId}` : `started ${workflowId}`,
  );
  if (inputDiffers === true) {
    output.note('warning: its input differs from this one; nothing was sent for this call, use another key to send it');
  } else if (alreadyStarted && inputDiffers === undefined) {
    output.note('warning: whether its input differs from this one cannot be told');
  }
}

async function awaitResult({ output }: Cli, started: StartedFollowUp, signal: AbortSignal): Promise<ExitCode> {
  const { workflowId, alreadyStarted, inputDiffers } = started;
  const { row, outcome } = awaitFollowUp(workflowId.split('/').slice(1, 3).join('/'), started, signal);
  await showProgress(output, [row]);
  try {
    const result = outcome();
    output.data({ workflowId, alreadyStarted, inputDiffers, ...result }, describeResult(workflowId, result));
    return exitCodeOf(result);
  } catch (error) {
    if (error instanceof InterruptedError) {
      error.workflowId = workflowId;
      error.message = `interrupted; the follow-up goes on. Look at it with: follow-up status ${workflowId}`;
    }
    throw error;
  }
}
