import { safeText } from '../terminal-text.js';
import { safeJson } from './safe-text.js';

/**
 * Where a command writes: its data to stdout, as text or, with `--json`, as JSON; everything else to stderr. Control
 * characters never get through.
 */
export class Output {
  constructor(
    /** Whether stdout takes JSON. Set again once the arguments are parsed. */
    public json: boolean,
    readonly stdout: NodeJS.WriteStream = process.stdout,
    readonly stderr: NodeJS.WriteStream = process.stderr,
  ) {}

  /** The command's data: a document of its own, or one item of several. */
  data(value: unknown, text: string): void {
    this.stdout.write(this.json ? `${safeJson(value)}\n` : `${safeText(text)}\n`);
  }

  /** A line for people only: progress, hints, warnings. */
  note(text: string): void {
    this.stderr.write(`${safeText(text)}\n`);
  }
}
