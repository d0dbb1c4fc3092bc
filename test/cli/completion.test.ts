import { randomUUID } from 'node:crypto';
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { findOnPath } from '../../src/embedded/environment.js';
import { eventually } from '../support/eventually.js';
import { runCli, startCli } from './run-cli.js';

/** Longer than anybody waits at a prompt, because the answer must not depend on how busy the machine is. */
const PATIENCE_MS = 20_000;

/** What the command line offers for the last of `words`, without descriptions. */
async function offered(words: readonly string[], env: Record<string, string> = {}): Promise<string[]> {
  const { exitCode, stdout, stderr } = await runCli(['complete', '--', ...words], { env, calledInMs: PATIENCE_MS });
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  return stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => line.split('\t')[0] ?? '');
}

describe('without a server', () => {
  test('commands and the commands of each group, with their descriptions', async () => {
    expect(await offered(['s'])).toEqual(['send', 'status', 'schedule', 'setup', 'simulator']);
    expect(await offered(['batch', ''])).toEqual(['run', 'status', 'continue', 'retry', 'cancel', 'help']);
    const { stdout } = await runCli(['complete', '--', 'budget', 'res']);
    expect(stdout).toMatch(/^resume\tend a pause; .*\nrestore\tstart a stopped budget .*\n$/);
  });

  test('every command that the help names, but not the one that completes', async () => {
    const { stdout } = await runCli(['--help']);
    const named = [...stdout.matchAll(/^ {2}([a-z-]+) /gm)].map(([, name]) => name);
    expect(named.length).toBeGreaterThan(14);
    expect(await offered([''])).toEqual(named);
  });

  test('options, and all of them if nothing else can follow', async () => {
    expect(await offered(['send', 'p', 'j', '--poll'])).toEqual([
      ...['--poll-initial-interval', '--poll-max-interval', '--poll-backoff-coefficient'],
    ]);
    expect(await offered(['list', ''])).toEqual([
      ...['--project', '--job', '--pr', '--since', '--state', '--batch', '--json', '--help'],
    ]);
  });

  test('the values of options and arguments that have a fixed set of values', async () => {
    expect(await offered(['list', '--state', 'wait'])).toEqual(['waiting-for-budget', 'waiting-for-job']);
    expect(await offered(['send', 'p', 'j', '--lane='])).toEqual(['--lane=interactive', '--lane=batch']);
    expect(await offered(['resolve', 'follow-up/p/j/k', ''])).toEqual(['sent', 'notSent']);
    expect(await offered(['completion', ''])).toEqual(['bash', 'zsh', 'fish']);
  });

  test('files, where a file is expected', async () => {
    expect(await offered(['send', 'p', 'j', '-f', ''])).toEqual([':files']);
    expect(await offered(['batch', 'run', 'li'])).toEqual([':files']);
    expect(await offered(['schedule', 'create', 'nightly', '--paused', ''])).toEqual([':files']);
  });

  test('nothing for free text, for misspelt commands, and after the end of the options', async () => {
    expect(await offered(['send', 'p', 'j', '--prompt', 'st'])).toEqual([]);
    expect(await offered(['sned', ''])).toEqual([]);
    expect(await offered(['list', '--', '--st'])).toEqual([]);
  });
});

describe('with a server', () => {
  const project = `complete-${randomUUID().slice(0, 8)}`;
  let env: Record<string, string>;
  let connection: Connection;
  let client: Client;

  beforeAll(async () => {
    env = { TEMPORAL_ADDRESS: inject('temporalAddress') };
    connection = await Connection.connect({ address: inject('temporalAddress') });
    client = new Client({ connection });
    // No worker polls this queue. The workflows only have to exist.
    const start = (type: string, workflowId: string) =>
      client.workflow.start(type, { taskQueue: `nobody-${project}`, workflowId });
    await start('projectBudget', `project-budget/${project}`);
    await start('followUp', `follow-up/${project}/job-1/nightly:0`);
    await start('followUp', `follow-up/${project}/$(touch pwned)/k`);
    await start('somethingElse', `follow-up/${project}/job-2/k`);
    await start('followUpBatch', `follow-up-batch/${project}`);
    for (const [scheduleId, workflowType] of [
      [project, 'followUpBatch'],
      [`${project}-foreign`, 'somethingElse'],
    ] as const) {
      await client.schedule.create({
        scheduleId,
        spec: { intervals: [{ every: '1h' }] },
        action: { type: 'startWorkflow', workflowType, taskQueue: `nobody-${project}` },
        state: { paused: true },
      });
    }
    await eventually('all are listed', async () => {
      let count = 0;
      for await (const _each of client.workflow.list({ query: `TaskQueue = 'nobody-${project}'` })) count++;
      return count === 5;
    });
  });
  afterAll(async () => {
    for (const name of [project, `${project}-foreign`]) await client.schedule.getHandle(name).delete();
    for await (const { workflowId } of client.workflow.list({ query: `TaskQueue = 'nobody-${project}'` })) {
      await client.workflow.getHandle(workflowId).terminate();
    }
    await connection.close();
  });

  test('projects, for arguments and for options', async () => {
    expect(await offered(['budget', 'show', 'complete-'], env)).toContain(project);
    expect(await offered(['send', project.slice(0, -1)], env)).toEqual([project]);
    expect(await offered(['list', `--project=${project.slice(0, -1)}`], env)).toEqual([`--project=${project}`]);
  });

  test('follow-ups, except ids that a shell would run', async () => {
    expect(await offered(['status', `follow-up/${project}`], env)).toEqual([`follow-up/${project}/job-1/nightly:0`]);
  });

  test('batches', async () => {
    expect(await offered(['batch', 'status', project], env)).toEqual([project]);
    expect(await offered(['list', '--batch', project], env)).toEqual([project]);
  });

  test('schedules that start batches', async () => {
    const name = await eventually('it is listed', async () => {
      const names = await offered(['schedule', 'pause', project], env);
      return names.length > 0 ? names : undefined;
    });
    expect(name).toEqual([project]);
  });

  test('nothing for text that would change the query', async () => {
    expect(await offered(['status', "x' OR WorkflowId != '"], env)).toEqual([]);
  });
});

describe('nothing is offered, and the exit code is 0', () => {
  test('if no server runs', async () => {
    expect(await offered(['status', ''], { TEMPORAL_ADDRESS: '127.0.0.1:1' })).toEqual([]);
  });

  test('if settings are wrong', async () => {
    expect(await offered(['status', ''], { TEMPORAL_ADDRESS: 'not an address' })).toEqual([]);
  });

  test('if the server accepts and never answers: the process ends by itself', async () => {
    const silent = createServer(() => undefined).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const address = silent.address();
    const target = `127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`;
    const ended = await startCli(['complete', '--', 'status', ''], { env: { TEMPORAL_ADDRESS: target } }).ended;
    silent.close();
    expect(ended).toEqual({ exitCode: 0, stdout: '', stderr: '' });
  });
});

const SHELLS = {
  bash: { command: 'bash --norc --noprofile -i', before: '' },
  zsh: { command: 'zsh -f -i', before: 'autoload -Uz compinit; compinit -u -D; ' },
  fish: { command: 'fish --no-config -i', before: '' },
};

// zsh and fish are tested if they are installed, and are not required, even with CI=true.
for (const [shell, { command, before }] of Object.entries(SHELLS)) {
  const missing = await missingFor(shell);
  describe.skipIf(missing !== undefined)(`in ${shell}${missing === undefined ? '' : ` [${missing}]`}`, () => {
    let folder: string;
    let terminal: ChildProcessWithoutNullStreams;
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), `complete-${shell}-`));
      await writeFile(join(folder, 'zebra list.txt'), '');
      const { stdout } = await runCli(['completion', shell]);
      await writeFile(join(folder, 'script'), stdout);
      // A stub of the command. It prints the prepared answer and notes its arguments.
      const stub = `if [ "$1" = complete ]; then cat answer; note=asked; else note=ran; fi; printf '%s\\n' "$@" > $note`;
      await writeFile(join(folder, 'follow-up'), `#!/bin/sh\ncd ${folder}\n${stub}\n`);
      await chmod(join(folder, 'follow-up'), 0o755);
      terminal = spawn('script', ['-qec', command, '/dev/null'], {
        cwd: folder,
        env: { PATH: `${folder}${delimiter}${process.env['PATH']}`, HOME: folder, TERM: 'xterm' },
      });
      terminal.stdout.resume();
      terminal.stdin.write(`${before}source ./script; printf 'yes\\n' > loaded\r`);
      await noted('loaded');
    });
    afterAll(async () => {
      terminal.kill();
      await once(terminal, 'close');
      await rm(folder, { recursive: true });
    });

    /** The lines of a file, once it is complete. */
    const noted = (name: string) =>
      eventually(`there is ${name}`, async () => {
        const text = await readFile(join(folder, name), 'utf8').catch(() => '');
        return text.endsWith('\n') ? text.trimEnd().split('\n') : undefined;
      });

    /** Types a command line and presses Tab and Enter. Returns what the shell asked and what it ran. */
    async function press(line: string, answer: string): Promise<{ asked: string[]; ran: string[] }> {
      for (const name of ['asked', 'ran']) await rm(join(folder, name), { force: true });
      await writeFile(join(folder, 'answer'), answer);
      terminal.stdin.write(`${line}\t`);
      const asked = await noted('asked');
      terminal.stdin.write('\r');
      return { asked, ran: await noted('ran') };
    }

    test('a command is completed', async () => {
      const { asked, ran } = await press('follow-up sta', 'status\tshow: where a follow-up stands\n');
      expect(asked).toEqual(['complete', '--', 'sta']);
      expect(ran).toEqual(['status']);
    });

    test('an id with a colon is completed after a prompt with spaces', async () => {
      const id = 'follow-up/p/j/nightly:0';
      const { asked, ran } = await press(`follow-up send --prompt 'a b' follow-up/p/j/nightly:`, `${id}\n`);
      // bash passes words with their quotes.
      expect([asked.length, asked.at(-1)]).toEqual([6, 'follow-up/p/j/nightly:']);
      expect(ran).toEqual(['send', '--prompt', 'a b', id]);
    });

    test('the value of an option after = is completed', async () => {
      const { asked, ran } = await press('follow-up list --state=p', '--state=polling\n');
      expect(asked).toEqual(['complete', '--', 'list', '--state=p']);
      expect(ran).toEqual(['list', '--state=polling']);
    });

    test('the name of a file with a space is completed', async () => {
      const { ran } = await press('follow-up batch run z', ':files\n');
      expect(ran).toEqual(['batch', 'run', 'zebra list.txt']);
    });

    test('nothing is inserted if nothing is offered', async () => {
      const { ran } = await press('follow-up list z', '');
      expect(ran).toEqual(['list', 'z']);
    });
  });
}

/** Why a shell cannot be tested here, or undefined. */
async function missingFor(shell: string): Promise<string | undefined> {
  if ((await findOnPath(shell, process.env)) === undefined) return `${shell} is missing: install it`;
  if (process.platform !== 'linux') return 'the terminal needs "script" of util-linux';
  return (await findOnPath('script', process.env)) === undefined ? 'script is missing: install util-linux' : undefined;
}
