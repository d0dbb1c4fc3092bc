import { Command, CommanderError } from 'commander';
import { PACKAGE_VERSION } from '../node/package.js';
import { safeLine } from '../node/terminal-text.js';
import { type Cli, type CliIo, ExitCode, Output, processIo, UsageError } from './cli.js';
import { addCommands } from './commands.js';
import { type ReportedError, reportOf } from './error-report.js';

/**
 * Runs the command line. Never throws.
 *
 * @param argv the arguments after the program's name
 * @param bundled see {@link Cli}
 * @returns the exit code
 */
export async function main(argv: readonly string[], io: CliIo = processIo(), bundled?: Promise<void>): Promise<number> {
  // Provisional until the arguments are parsed: commander's own errors come earlier.
  const output = new Output(io, argv.includes('--json'));
  const cli: Cli = { io, env: io.env, output, exitCode: ExitCode.ok, bundled };
  surviveBrokenOutput(cli, argv[0] === 'worker' || argv[0] === 'dev');
  try {
    const program = buildProgram(cli);
    output.commandNames = program.commands.map((command) => command.name());
    await program.parseAsync(argv, { from: 'user' });
    return cli.exitCode;
  } catch (error) {
    if (!(error instanceof CommanderError)) return report(output, error);
    if (error.exitCode === 0) return ExitCode.ok;
    // Help that is shown without a command needs no error message.
    if (error.code === 'commander.help') return ExitCode.usage;
    const message = error.message
      .replace(/^error: /, '')
      .replace(/^command-argument value ('.*') is invalid for argument '(.*?)'\./s, '$2: $1 is invalid.')
      .replace(/\s*\n\s*/g, ' ');
    const hint = error.code === 'commander.unknownOption' ? '; put -- before an id that starts with -' : '';
    return report(output, new UsageError(`${message}${hint}`));
  }
}

function buildProgram(cli: Cli): Command {
  const { stdout, stderr } = cli.io;
  const program = new Command('follow-up')
    .description(
      'Send follow-up messages to AI agent jobs and watch each job until its pull request is ready. Runs on Temporal.',
    )
    .version(PACKAGE_VERSION)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void stdout.write(text),
      writeErr: (text) => void stderr.write(text),
      // The catch block reports it once, with its type and, if requested, as JSON.
      outputError: () => undefined,
    })
    // The longest command leaves 39 of 80 columns, which commander does not wrap by default.
    .configureHelp({ minWidthToWrap: 20 })
    .showSuggestionAfterError()
    .addHelpText('after', HELP)
    .hook('preAction', (_program, command) => {
      cli.output.json = command.opts<{ json?: boolean }>().json === true;
    });
  addCommands(program, cli);
  return program;
}

const HELP = `
Commands find Temporal with TEMPORAL_ADDRESS, the other TEMPORAL_* variables, or
a profile. The default is localhost:7233.
Durations are milliseconds, or text such as 500ms, 90s, 5m, 1h, 7d.

Exit codes:
  0  completed or archived           4    the follow-up failed or was cancelled
  1  any other error                 5    Temporal cannot be reached
  2  wrong usage, input or setting   130  interrupted; the follow-up continues
  3  the agent job failed`;

/**
 * A reader that has seen enough, such as `head`, may close stdout early: that is no error. Output that stderr does not
 * accept is dropped, and a worker also continues without stdout.
 */
function surviveBrokenOutput({ io, output }: Cli, isWorker: boolean): void {
  io.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (isWorker) return;
    if (error.code === 'EPIPE') return io.exit(ExitCode.ok);
    output.note(`error: Output: stdout cannot be written: ${error.message}`);
    io.exit(ExitCode.error);
  });
  io.stderr.on('error', () => undefined);
}

/** Writes one line to stderr, and with `--json` a document to stdout. Returns the exit code. */
function report(output: Output, error: unknown): ExitCode {
  const { exitCode, report } = reportOf(error);
  if (output.json) output.data({ error: report }, '');
  output.note(`error: ${describe(report)}`);
  return exitCode;
}

function describe({ type, message, delivered }: ReportedError): string {
  // A list of settings has a line for each.
  const text = message.split('\n').map((line) => (line.startsWith('  ') ? `  ${safeLine(line)}` : safeLine(line)));
  // Invalid input is never sent.
  const isReported = delivered !== undefined && type !== 'InvalidInput';
  return `${type}: ${text.join('\n')}${isReported ? ` (delivered: ${delivered})` : ''}`;
}
