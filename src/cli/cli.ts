import type { Command } from 'commander';
import type { Environment } from '../config.js';
import type { ExitCode } from './exit-codes.js';
import type { Output } from './output.js';

/** What every command is given. */
export interface Cli {
  env: Environment;
  output: Output;
  /** What the command that was run ended with. */
  exitCode: ExitCode;
}

/** Adds what all commands have: `--json`, and an example in the help. */
export function withCommonOptions(command: Command, example: string): Command {
  return command
    .option('--json', 'one JSON document on stdout (for lists one a line), everything else on stderr')
    .addHelpText('after', `\nExample:\n  $ ${example}`);
}
