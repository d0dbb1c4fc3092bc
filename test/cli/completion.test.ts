import { execFile } from 'node:child_process';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { runCli } from './run-cli.js';

const run = promisify(execFile);
let script: string;

beforeAll(async () => {
  const { exitCode, stdout } = await runCli(['completion', 'bash']);
  expect(exitCode).toBe(0);
  script = join(await mkdtemp(join(tmpdir(), 'completion-')), 'script');
  await writeFile(script, stdout);
});

/** What bash offers for the last of `words`. */
async function offered(...words: string[]): Promise<string[]> {
  const ask = `source "$0"; COMP_WORDS=(follow-up "$@"); COMP_CWORD=$#; _follow_up; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout } = await run('bash', ['--norc', '--noprofile', '-c', ask, script, ...words]);
  return stdout.split('\n').filter(Boolean);
}

describe('bash offers', () => {
  test('commands, and the commands of a group', async () => {
    expect(await offered('s')).toEqual(['send', 'status', 'schedule', 'setup', 'simulator']);
    expect(await offered('batch', '')).toEqual(['run', 'status', 'continue', 'retry', 'cancel', 'help']);
    expect(await offered('budget', 'res')).toEqual(['resume', 'restore']);
  });

  test('every command that the help names', async () => {
    const { stdout } = await runCli(['--help']);
    const named = [...stdout.matchAll(/^ {2}([a-z-]+) /gm)].map(([, name]) => name);
    expect(named.length).toBeGreaterThan(12);
    expect(await offered('')).toEqual(named);
  });

  test('the options of a command, also after its arguments', async () => {
    expect(await offered('send', 'p', 'j', '--poll')).toEqual([
      ...['--poll-initial-interval', '--poll-max-interval', '--poll-backoff-coefficient'],
    ]);
    expect(await offered('batch', 'retry', 'b', '--')).toEqual(['--only', '--yes', '--no-wait', '--json', '--help']);
  });

  test('the values of options and arguments that have a fixed set of values', async () => {
    expect(await offered('list', '--state', 'wait')).toEqual(['waiting-for-budget', 'waiting-for-job']);
    expect(await offered('batch', 'run', '--lane', '')).toEqual(['interactive', 'batch']);
    expect(await offered('resolve', 'follow-up/p/j/k', '')).toEqual(['sent', 'notSent']);
    expect(await offered('completion', '')).toEqual(['bash', 'zsh', 'fish']);
  });

  test('nothing of its own where a file or free text belongs, so that bash offers files', async () => {
    expect(await offered('batch', 'run', 'li')).toEqual([]);
    expect(await offered('sned', '')).toEqual([]);
    expect(await run('grep', ['-c', 'complete -o default -F _follow_up follow-up', script])).toBeDefined();
  });
});

test('fish gets a line for each command and option, with its description', async () => {
  const { stdout } = await runCli(['completion', 'fish']);
  const lines = stdout.trim().split('\n');
  expect(lines.every((line) => line.startsWith("complete -c follow-up -n '"))).toBe(true);
  const resume = lines.find((line) => line.includes("'__fish_seen_subcommand_from budget' -a resume"));
  expect(resume).toMatch(/ -d 'end a pause; /);
  const state = lines.find((line) =>
    line.includes(
      "'__fish_seen_subcommand_from list; and not __fish_seen_subcommand_from batch schedule budget' -l state",
    ),
  );
  expect(state).toMatch(/ -x -a 'waiting-for-budget /);
});

test('zsh gets the script of bash, and what runs it', async () => {
  const { stdout } = await runCli(['completion', 'zsh']);
  expect(stdout).toContain('autoload -U +X bashcompinit && bashcompinit\n_follow_up() {');
});
