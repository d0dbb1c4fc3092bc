import { execFile } from 'node:child_process';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { runCli } from './run-cli.js';

const scriptOf = async (shell: string) => (await runCli(['completion', shell])).stdout;

test('bash offers commands, options and fixed values, and leaves files and free text to bash', async () => {
  const offers: [words: string, offered: string[]][] = [
    ['s', ['send', 'status', 'schedule', 'setup', 'simulator']],
    ['batch ', ['run', 'status', 'continue', 'retry', 'cancel', 'help']],
    ['budget res', ['resume', 'restore']],
    // Also after the arguments of a command.
    ['send p j --poll', ['--poll-initial-interval', '--poll-max-interval', '--poll-backoff-coefficient']],
    ['batch retry b --', ['--only', '--yes', '--no-wait', '--json', '--help']],
    ['list --state wait', ['waiting-for-budget', 'waiting-for-job']],
    ['batch run --lane ', ['interactive', 'batch']],
    ['resolve follow-up/p/j/k ', ['sent', 'notSent']],
    ['completion ', ['bash', 'zsh', 'fish']],
    ['sned ', []],
  ];
  const script = join(await mkdtemp(join(tmpdir(), 'completion-')), 'script');
  await writeFile(script, await scriptOf('bash'));
  const asks = offers.map(
    ([words]) => `COMP_WORDS=(follow-up ${words.replace(/ $/, " ''")}); [ '${words}' ] || COMP_WORDS+=('')
      COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); COMPREPLY=(); _follow_up; echo "\${COMPREPLY[*]}"`,
  );
  const program = ['source "$0"', ...asks, 'complete -p follow-up'].join('\n');
  const { stdout } = await promisify(execFile)('bash', ['--norc', '--noprofile', '-c', program, script]);
  const lines = stdout.trimEnd().split('\n');
  expect(offers.map(([words], index) => [words, lines[index]?.split(' ').filter(Boolean)])).toEqual(offers);
  expect(lines.at(-1)).toBe('complete -o default -F _follow_up follow-up');
});

test('fish gets a line for each command and option, zsh the script of bash', async () => {
  const lines = (await scriptOf('fish')).trim().split('\n');
  expect(lines.every((line) => line.startsWith("complete -c follow-up -n '"))).toBe(true);
  const lineWith = (text: string) => lines.find((line) => line.includes(text));
  expect(lineWith("'__fish_seen_subcommand_from budget' -a resume")).toMatch(/ -d 'end a pause; /);
  const ofList = '__fish_seen_subcommand_from list; and not __fish_seen_subcommand_from batch schedule budget';
  expect(lineWith(`'${ofList}' -l state`)).toMatch(/ -x -a 'waiting-for-budget /);
  expect(await scriptOf('zsh')).toContain('autoload -U +X bashcompinit && bashcompinit\n_follow_up() {');
});
