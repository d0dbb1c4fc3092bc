import { type Command, Option } from 'commander';
import { type Lane, lanes, unknownDeliveryActions, whenActiveActions } from '../contract/choices.js';
import { defined } from '../contract/defined.js';
import { type Cli, ExitCode } from './cli.js';

/** A command, called with its arguments as parsed by commander. No exit code means `ok`. */
type Run<A extends unknown[]> = (cli: Cli, ...args: A) => Promise<ExitCode | void>;

/** Makes the action of a command from a function that imports what the command runs. */
export type LazyAction = <A extends unknown[]>(load: () => Promise<Run<A>>) => (...args: A) => Promise<void>;

/**
 * Actions that import their code when they run: help and errors about options do not wait for the code of all
 * commands. The modules that define the commands import only commander.
 */
export function lazyAction(cli: Cli): LazyAction {
  return (load) =>
    async (...args) => {
      const run = await load();
      cli.exitCode = (await run(cli, ...args)) ?? ExitCode.ok;
    };
}

/** Adds the common parts of all commands: `--json`, and an example in the help. */
export function withCommonOptions(command: Command, example: string): Command {
  return command
    .option('--json', 'print one JSON document (lists: one per line) on stdout, everything else on stderr')
    .addHelpText('after', `\nExample:\n  $ ${example}`);
}

/**
 * An option with known values, for the help and for completion. Commander does not check them: they are checked with
 * all other fields, so that one message names every bad field.
 */
export function choice(flags: string, description: string, values: readonly string[]): Option {
  const option = new Option(flags, description);
  option.argChoices = [...values];
  return option;
}

/** Adds the options for the source of the prompt. */
export function addPromptOptions(command: Command): Command {
  return command
    .option('-p, --prompt <text>', 'the message; - reads it from stdin')
    .option('-f, --prompt-file <file>', 'file with the message; - reads it from stdin');
}

/** Adds an option for every field of a follow-up's input except ids and prompt. */
export function addSettingOptions(command: Command, defaultLane: Lane): Command {
  return command
    .addOption(choice('--lane <lane>', `interactive goes first (default: ${defaultLane})`, lanes))
    .addOption(
      choice(
        '--on-unknown-delivery <action>',
        'what to do if nobody can tell whether the message was delivered (default: fail)',
        unknownDeliveryActions,
      ),
    )
    .addOption(
      choice(
        '--when-active <action>',
        'what to do if the job works on another message (default: wait)',
        whenActiveActions,
      ),
    )
    .option('--poll-initial-interval <duration>', 'wait before the first poll (default: 5s)')
    .option('--poll-max-interval <duration>', 'longest wait between two polls (default: 60s)')
    .option('--poll-backoff-coefficient <number>', 'each wait is this many times the previous one (default: 1.5)')
    .option(
      '--settle-time <duration>',
      'how long after the send to distrust an unchanged terminal status (default: 120s)',
    )
    .option('--pr-link-grace <duration>', 'how long to look for the pull request of a completed job (default: 30s)')
    .option('--job-timeout <duration>', 'longest wait for the job after the send (default: 24h)')
    .option('--budget-wait-timeout <duration>', 'longest wait before the send (default: 7d)');
}

/** Adds the options that limit what a batch sends. */
export function addLimitOptions(command: Command): Command {
  return command
    .option('--max-open <n>', 'maximum number of open follow-ups (default: 50)')
    .option('--canary <n>', 'hold the batch after its first items, until "batch continue"')
    .option('--max-failures <n>', 'hold the batch once more items have failed; a number, or a share such as 5%')
    .option('--allow-duplicates', 'allow lines with the same project, job and prompt');
}

/** The parsed options of {@link addLimitOptions}. */
export interface LimitOptions {
  maxOpen?: string;
  canary?: string;
  maxFailures?: string;
  allowDuplicates?: boolean;
}

/** The fields of a batch's input from the options, unchecked. */
export function toLimits({ maxOpen, canary, maxFailures }: LimitOptions): Record<string, unknown> {
  return defined({ maxOpen: number(maxOpen), canary: number(canary), maxFailures: number(maxFailures) });
}

/** The parsed options of {@link addSettingOptions}. */
export interface SettingOptions {
  lane?: string;
  onUnknownDelivery?: string;
  whenActive?: string;
  pollInitialInterval?: string;
  pollMaxInterval?: string;
  pollBackoffCoefficient?: string;
  settleTime?: string;
  prLinkGrace?: string;
  jobTimeout?: string;
  budgetWaitTimeout?: string;
}

/** The settings from the options, unchecked. */
export function toSettings(options: SettingOptions): Record<string, unknown> {
  const { pollInitialInterval, pollMaxInterval, pollBackoffCoefficient } = options;
  const poll = defined({
    initialInterval: duration(pollInitialInterval),
    maxInterval: duration(pollMaxInterval),
    backoffCoefficient: number(pollBackoffCoefficient),
  });
  return defined({
    lane: options.lane,
    onUnknownDelivery: options.onUnknownDelivery,
    whenActive: options.whenActive,
    poll: Object.keys(poll).length > 0 ? poll : undefined,
    settleTime: duration(options.settleTime),
    prLinkGrace: duration(options.prLinkGrace),
    jobTimeout: duration(options.jobTimeout),
    budgetWaitTimeout: duration(options.budgetWaitTimeout),
  });
}

/** Turns digits into milliseconds. Returns any other text unchanged, to be checked with the other fields. */
export function duration(text: string | undefined): string | number | undefined {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : text;
}

/** Turns digits, with or without a fraction, into a number. Returns any other text unchanged. */
export function number(text: string | undefined): string | number | undefined {
  return text !== undefined && /^\d+(\.\d+)?$/.test(text) ? Number(text) : text;
}
