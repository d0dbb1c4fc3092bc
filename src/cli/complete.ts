import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Argument, Command, Option } from 'commander';
import { type Cli, ExitCode } from './cli.js';

/** A word that can replace the last one. */
interface Candidate {
  word: string;
  description?: string;
}

/** How a command line can continue: with words, or a value for a placeholder such as `<project>`. */
type Completion = { words: Candidate[] } | { placeholder: string; prefix: string };

/** `follow-up completion`: prints the script with which a shell calls `follow-up complete` when Tab is pressed. */
export async function printCompletionScript({ io }: Cli, shell: string): Promise<void> {
  // Two directories above both src/cli and dist/cli.
  io.stdout.write(await readFile(new URL(`../../bin/completion/${shell}`, import.meta.url)));
}

/** Time from the call of the command to its end: a person waits at the prompt. */
const DEADLINE_MS = 450;

/**
 * `follow-up complete`: prints what can replace the last word, one per line with its description after a
 * tab, or `:files` if a file name belongs there. Prints nothing if the answer is not known in time.
 */
export async function complete({ io }: Cli, words: string[], _options: unknown, command: Command): Promise<void> {
  const program = command.parent ?? command;
  const leftMs = DEADLINE_MS - (performance.now() - io.calledAtMs);
  const answered = new AbortController();
  const deadline = sleep(Math.max(0, leftMs), undefined, { signal: answered.signal }).catch(() => undefined);
  const found = await Promise.race([candidates(io.env, program, words, leftMs), deadline]);
  // A lookup that still runs would keep the process alive.
  if (!found) return io.exit(ExitCode.ok);
  answered.abort();
  // Workflow ids are arbitrary text, and become part of a shell's command line.
  const safe = found.filter(({ word }) => /^[\w.~:/=-]+$/.test(word));
  const lines = safe.map(({ word, description }) => (description === undefined ? word : `${word}\t${description}`));
  if (lines.length > 0) io.stdout.write(`${lines.join('\n')}\n`);
}

async function candidates(
  env: Cli['env'],
  program: Command,
  words: string[],
  timeoutMs: number,
): Promise<Candidate[] | undefined> {
  const current = words.at(-1) ?? '';
  const completion = completionOf(program, words.slice(0, -1), current);
  if ('words' in completion) return completion.words.filter(({ word }) => word.startsWith(current));
  const { placeholder, prefix } = completion;
  if (placeholder === 'file') return [{ word: ':files' }];
  try {
    const { idSources, listIds } = await import('./complete-ids.js');
    const source = idSources[placeholder];
    if (!source || timeoutMs <= 0) return [];
    const ids = await listIds(env, source, current.slice(prefix.length), timeoutMs);
    return ids.map((id) => ({ word: `${prefix}${id}` }));
  } catch {
    return undefined;
  }
}

/** Follows the words down the tree of commands that also parses them. */
function completionOf(program: Command, words: readonly string[], current: string): Completion {
  let command = program;
  let expecting: Option | undefined;
  let argumentCount = 0;
  let isPastOptions = false;
  for (const word of words) {
    if (expecting) expecting = undefined;
    else if (isPastOptions || !isOption(word)) {
      const next = argumentCount === 0 ? command.commands.find((each) => each.name() === word) : undefined;
      if (next) command = next;
      else argumentCount++;
    } else if (word === '--') isPastOptions = true;
    else expecting = optionOf(command, word);
    if (expecting && !takesValue(expecting)) expecting = undefined;
  }
  if (expecting) return valueOf(placeholderOf(expecting), expecting.argChoices, '');
  if (current.startsWith('--') && current.includes('=')) {
    const flag = current.slice(0, current.indexOf('='));
    const option = optionOf(command, flag);
    return option && takesValue(option) ? valueOf(placeholderOf(option), option.argChoices, `${flag}=`) : { words: [] };
  }
  const argument = argumentAt(command, argumentCount);
  if (!isPastOptions && (current.startsWith('-') || (command.commands.length === 0 && !argument))) {
    return { words: optionsOf(command) };
  }
  if (command.commands.length > 0) return { words: argumentCount === 0 ? commandsOf(command) : [] };
  return argument ? valueOf(argument.name(), argument.argChoices, '') : { words: [] };
}

function valueOf(placeholder: string, choices: readonly string[] | undefined, prefix: string): Completion {
  if (choices) return { words: choices.map((choice) => ({ word: `${prefix}${choice}` })) };
  return { placeholder, prefix };
}

/** A lone `-` is a value: stdin. */
function isOption(word: string): boolean {
  return word.startsWith('-') && word !== '-';
}

function optionOf(command: Command, flag: string): Option | undefined {
  return command.options.find(({ long, short }) => flag === long || flag === short);
}

function takesValue({ required, optional }: Option): boolean {
  return required || optional;
}

/** `file` of `--jobs <file>`. */
function placeholderOf({ flags }: Option): string {
  return /[<[]([^>\]]+)[>\]]/.exec(flags)?.[1] ?? '';
}

function argumentAt({ registeredArguments }: Command, index: number): Argument | undefined {
  const last = registeredArguments.at(-1);
  return registeredArguments[index] ?? (last?.variadic ? last : undefined);
}

function commandsOf(command: Command): Candidate[] {
  return command
    .createHelp()
    .visibleCommands(command)
    .map((each) => ({ word: each.name(), description: each.description() }));
}

function optionsOf(command: Command): Candidate[] {
  return command
    .createHelp()
    .visibleOptions(command)
    .map(({ long, short, description }) => ({ word: long ?? short ?? '', description }));
}
