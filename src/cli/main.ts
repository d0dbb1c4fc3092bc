import { createRequire } from 'node:module';
import { Command, CommanderError } from 'commander';
import { processEnvironment } from '../config.js';
import { addBatchCommand } from './batch.js';
import { addBudgetCommand } from './budget.js';
import { addCancelCommand } from './cancel.js';
import type { Cli } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { addDevCommand } from './dev.js';
import { addDoctorCommand } from './doctor.js';
import { addListCommand } from './list.js';
import { Output } from './output.js';
import { addPollNowCommand } from './poll-now.js';
import { reportError, UsageError } from './report-error.js';
import { addResolveCommand } from './resolve.js';
import { addScheduleCommand } from './schedule.js';
import { addSendCommand } from './send.js';
import { addSetupCommand } from './setup.js';
import { addSimulatorCommand } from './simulator.js';
import { addStatusCommand } from './status.js';
import { addWorkerCommand } from './worker.js';

/**
 * Runs the command line.
 *
 * @param argv the arguments behind the program's name
 * @returns the exit code; nothing is thrown
 */
export async function main(argv: string[]): Promise<number> {
  // Until the arguments are parsed this is the best guess; commander's own errors come before that.
  const output = new Output(argv.includes('--json'));
  const cli: Cli = { env: processEnvironment(), output, exitCode: ExitCode.ok };
  endQuietlyOnClosedPipe(output);
  try {
    await buildProgram(cli).parseAsync(argv, { from: 'user' });
    return cli.exitCode;
  } catch (error) {
    if (!(error instanceof CommanderError)) return reportError(output, error);
    if (error.exitCode === 0) return ExitCode.ok;
    // Help that was shown because no command was given says all there is to say.
    if (error.code === 'commander.help') return ExitCode.usage;
    return reportError(output, new UsageError(error.message.replace(/^error: /, '').replace(/\s*\n\s*/g, ' ')));
  }
}

function buildProgram(cli: Cli): Command {
  const { output } = cli;
  const program = new Command('follow-up')
    .description(
      'Sends follow-up messages to agent jobs, durably, on Temporal, and sees each through to its pull request.',
    )
    .version(readVersion())
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void output.stdout.write(text),
      writeErr: (text) => void output.stderr.write(text),
      // Reported once, with its type and as JSON too, where the error is caught.
      outputError: () => undefined,
    })
    .showSuggestionAfterError()
    .addHelpText('after', HELP)
    .hook('preAction', (_program, command) => {
      output.json = command.opts<{ json?: boolean }>().json === true;
    });
  addDevCommand(program, cli);
  addWorkerCommand(program, cli);
  addSendCommand(program, cli);
  addStatusCommand(program, cli);
  addListCommand(program, cli);
  addCancelCommand(program, cli);
  addPollNowCommand(program, cli);
  addResolveCommand(program, cli);
  addBatchCommand(program, cli);
  addScheduleCommand(program, cli);
  addBudgetCommand(program, cli);
  addSetupCommand(program, cli);
  addDoctorCommand(program, cli);
  addSimulatorCommand(program, cli);
  return program;
}

const HELP = `
Temporal is found by TEMPORAL_ADDRESS and the other TEMPORAL_* variables or a profile; localhost:7233 without them.
Durations are milliseconds or text such as 500ms, 90s, 5m, 1h, 7d.

Exit codes:
  0    completed or archived       4    the follow-up failed or was cancelled
  2    wrong usage or input        5    Temporal cannot be reached
  3    the agent job failed        130  interrupted; the follow-up goes on`;

/** From package.json, which is two directories above both src/cli and dist/cli. */
function readVersion(): string {
  const manifest: unknown = createRequire(import.meta.url)('../../package.json');
  return typeof manifest === 'object' && manifest !== null && 'version' in manifest ? String(manifest.version) : '';
}

/** `follow-up list | head` closes our stdout early; that is no error of ours. */
function endQuietlyOnClosedPipe({ stdout, stderr }: Output): void {
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit(ExitCode.ok);
  });
  stderr.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
}
