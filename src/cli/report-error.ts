import type { ReportedError } from './classify-error.js';
import type { Output } from './cli.js';
import { ExitCode, UsageError } from './errors.js';
import { safeLine } from './safe-text.js';

/** Writes one clear line to stderr, and with `--json` a document to stdout. Gives the exit code. */
export async function reportError(output: Output, error: unknown): Promise<ExitCode> {
  const { exitCode, report } =
    error instanceof UsageError
      ? { exitCode: ExitCode.usage, report: { type: 'Usage', message: error.message } }
      : // It knows the errors of all parts, and so loads them.
        (await import('./classify-error.js')).classify(error);
  if (output.json) output.data({ error: report }, '');
  output.note(`error: ${describe(report)}`);
  return exitCode;
}

function describe({ type, message, delivered }: ReportedError): string {
  // A list of settings has a line for each.
  const text = message.split('\n').map((line) => (line.startsWith('  ') ? `  ${safeLine(line)}` : safeLine(line)));
  // What breaks a rule goes nowhere, and a command that only looks sends nothing.
  const isToldOf = delivered !== undefined && type !== 'InvalidInput';
  return `${type}: ${text.join('\n')}${isToldOf ? ` (delivered: ${delivered})` : ''}`;
}
