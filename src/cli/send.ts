import { parseStartInput, type StartedFollowUp, TemporalUnreachableError } from '../client/index.js';
import { defined } from '../contract/defined.js';
import { type Cli, ExitCode, InterruptedError, interruptible, StartUnknownError, UsageError } from './cli.js';
import { type SettingOptions, toSettings } from './command-options.js';
import { describeResult, exitCodeOf } from './follow-up-text.js';
import { awaitFollowUp, showProgress } from './progress-view.js';
import { sayWhenUnattended, withTemporal } from './temporal-session.js';
import { type PromptSource, readPrompt } from './text-source.js';

interface SendOptions extends SettingOptions, PromptSource {
  key?: string;
  wait: boolean;
}

/** `follow-up send` */
export async function send(
  cli: Cli,
  projectId: string,
  jobId: string,
  dash: string | undefined,
  options: SendOptions,
): Promise<ExitCode> {
  const prompt = await readPrompt(cli.io, { ...options, ...defined({ dash }) });
  if (prompt === undefined) throw new UsageError('prompt: give it with --prompt, --prompt-file, or - for stdin');
  const input = defined({ projectId, jobId, prompt, key: options.key, ...toSettings(options) });
  const { key, followUpInput } = parseStartInput(input);
  return withTemporal(cli, (session) =>
    interruptible(cli, async (signal) => {
      const starting = session.followUps.start({ ...followUpInput, key });
      const [started] = await Promise.all([
        starting.catch((error: unknown) => {
          throw withWayOn(error, key);
        }),
        sayWhenUnattended(session, cli.output),
      ]);
      reportStart(cli, started);
      if (!options.wait) {
        const { workflowId, alreadyStarted, inputDiffers } = started;
        cli.output.data({ workflowId, projectId, jobId, key, alreadyStarted, inputDiffers }, workflowId);
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
    output.note('warning: whether its input differs from this one is unknown');
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
    const wayBack = `the follow-up continues. To see it, run: follow-up status ${workflowId}`;
    if (error instanceof InterruptedError) {
      error.workflowId = workflowId;
      error.message = `interrupted; ${wayBack}`;
    } else if (error instanceof TemporalUnreachableError) error.message = `${error.message}; ${wayBack}`;
    throw error;
  }
}

function withWayOn(error: unknown, key: string): unknown {
  if (!(error instanceof TemporalUnreachableError)) return error;
  return new StartUnknownError(error, error.workflowId ?? '', `the same command with --key ${key}`);
}
