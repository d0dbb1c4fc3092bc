import { createServer } from 'node:net';
import { once } from 'node:events';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ExitCode, Output } from '../../src/cli/cli.js';
import { eventually } from '../support/eventually.js';
import { openCli, runCli } from './run-cli.js';

// Counts connections to where Temporal should be: bad input must be reported before anything is contacted.
let connections = 0;
const temporal = createServer((socket) => {
  connections++;
  socket.destroy();
});
let env: Record<string, string>;

beforeAll(async () => {
  temporal.listen(0, '127.0.0.1');
  await once(temporal, 'listening');
  const address = temporal.address();
  env = { TEMPORAL_ADDRESS: `127.0.0.1:${typeof address === 'object' && address ? address.port : 0}` };
});
afterAll(() => temporal.close());

async function expectRefused(args: string[], ...fields: string[]): Promise<void> {
  const { exitCode, stdout, stderr } = await runCli(args, { env });
  expect({ exitCode, stdout }, stderr).toEqual({ exitCode: 2, stdout: '' });
  for (const field of fields) expect(stderr).toContain(field);
  expect(stderr.trim().split('\n').length, stderr).toBe(1);
  expect(connections).toBe(0);
}

describe('bad arguments end with exit code 2 before Temporal is contacted', () => {
  test('an empty prompt', () => expectRefused(['send', 'p', 'j', '--prompt', ''], 'prompt: must not be empty'));
  test('no prompt at all', () =>
    expectRefused(['send', 'p', 'j'], 'prompt: give it with --prompt, --prompt-file, or -'));
  test('a job id that leads elsewhere', () => expectRefused(['send', 'p', '..', '-p', 'x'], 'jobId', '".."'));
  test('an unknown option', () => expectRefused(['send', 'p', 'j', '-p', 'x', '--colour', 'red'], '--colour'));
  test('an unknown command', () => expectRefused(['sned'], 'sned'));
  test('a missing argument', () => expectRefused(['send', 'p'], 'job'));
  test('an invalid duration', () =>
    expectRefused(['send', 'p', 'j', '-p', 'x', '--settle-time', '5 parsecs'], 'settleTime', '5 parsecs'));
  test('two prompts', () => expectRefused(['send', 'p', 'j', '-', '--prompt', 'x'], 'prompt'));
  test('a missing prompt file', () =>
    expectRefused(['send', 'p', 'j', '-f', '/nowhere/prompt.txt'], '/nowhere/prompt.txt', 'ENOENT'));
  test('a workflow id that is not of a follow-up', () => expectRefused(['status', 'something-else'], 'workflowId'));
  test('a state that does not exist', () => expectRefused(['list', '--state', "x' OR '1'='1"], 'state'));
  test('a project that would change the query', () => expectRefused(['list', '--project', "p' OR '1'='1"], 'project'));
  test('a word that resolves nothing', () =>
    expectRefused(['resolve', 'follow-up/p/j/k', 'perhaps'], 'word', 'perhaps'));
  test('every bad option of the simulator', () =>
    expectRefused(
      ['simulator', '--port', 'x', '--limit', '0', '--turn', '-1'],
      'port: must be a port from 0',
      'limit: must be a whole number of at least 1',
      'turn: must be',
    ));
  test('every bad port of dev', () => expectRefused(['dev', '--port', 'x', '--ui-port', '0'], 'port:', 'ui-port:'));
  test('every bad setting, whatever its purpose', async () => {
    const bad = { TEMPORAL_ADDRESS: 'no port:here', FOLLOW_UP_TASK_QUEUE: '/_sys/x', FOLLOW_UP_BUDGET_LIMIT: '0' };
    const { exitCode, stderr } = await runCli(['list'], { env: bad });
    expect(exitCode).toBe(2);
    for (const name of Object.keys(bad)) expect(stderr).toContain(name);
  });
  test('a bad project of a budget', () => expectRefused(['budget', 'show', 'a b'], 'projectId'));

  test('a batch without an id', () => expectRefused(['batch', 'run', 'list.jsonl'], '--id'));
  test('a batch without a list', () => expectRefused(['batch', 'run', '--id', 'b'], 'FILE', '--jobs'));
  test('a list of jobs without project and prompt', () =>
    expectRefused(['batch', 'run', '--jobs', '-', '--id', 'b'], 'projectId:', 'prompt:'));
  test('a prompt for a list that has its own', () =>
    expectRefused(['batch', 'run', '-', '--id', 'b', '--prompt', 'x'], '--jobs'));
  test('invalid settings of a batch', () =>
    expectRefused(
      [
        'batch',
        'run',
        '-',
        '--id',
        'a b',
        '--max-open',
        '0',
        '--canary',
        '1.5',
        '--max-failures',
        'few',
        '--lane',
        'fast',
      ],
      ...['id:', 'maxOpen:', 'canary:', 'maxFailures:', 'lane:'],
    ));
  test('settings of a batch that contradict each other', () =>
    expectRefused(['batch', 'run', '-', '--id', 'b', '--poll-max-interval', '1s'], 'poll.maxInterval:'));
  test('an invalid batch id', () => expectRefused(['batch', 'status', 'a b'], 'id:'));
  test('a retry of an unknown kind of item', () => expectRefused(['batch', 'retry', 'b', '--only', 'good'], 'good'));

  test('bad lines of a batch, each with its number', async () => {
    const stdin = '{"projectId":"p","jobId":"j","prompt":"x"}\n{"projectId":"p"}\n7\n';
    const { exitCode, stdout, stderr } = await runCli(['batch', 'run', '-', '--id', 'b', '--json'], { env, stdin });
    expect(exitCode).toBe(2);
    expect(stderr.trim().split('\n').length).toBe(3);
    expect(stderr).toMatch(/stdin: 2 of 3 lines .*\n {2}line 2: jobId: .*; prompt: .*\n {2}line 3: /);
    expect(JSON.parse(stdout)).toMatchObject({
      error: { type: 'InvalidInput', badLineCount: 2, issues: [{ line: 2, field: 'jobId' }, { line: 2 }, { line: 3 }] },
    });
    expect(connections).toBe(0);
  });

  test('every bad field, all at once', () =>
    expectRefused(
      [
        'send',
        'a b',
        '..',
        '-p',
        '',
        '-k',
        '?',
        '--lane',
        'fast',
        '--on-unknown-delivery',
        'guess',
        '--when-active',
        'now',
      ]
        .concat(['--poll-initial-interval', '1ms', '--poll-max-interval', 'x', '--poll-backoff-coefficient', '11'])
        .concat([
          '--settle-time',
          '2h',
          '--pr-link-grace',
          '2h',
          '--job-timeout',
          '0s',
          '--budget-wait-timeout',
          '-1s',
        ]),
      ...['projectId:', 'jobId:', 'prompt:', 'key:', 'lane:', 'onUnknownDelivery:', 'whenActive:'],
      ...['poll.initialInterval:', 'poll.maxInterval:', 'poll.backoffCoefficient:'],
      ...['settleTime:', 'prLinkGrace:', 'jobTimeout:', 'budgetWaitTimeout:'],
    ));

  test('a prompt that is not UTF-8', async () => {
    const { exitCode, stderr } = await runCli(['send', 'p', 'j', '-'], { env, stdin: Buffer.from([0x68, 0xff, 0xfe]) });
    expect(exitCode).toBe(2);
    expect(stderr).toContain('UTF-8');
  });

  test('a prompt above 256 KiB', async () => {
    const { exitCode, stderr } = await runCli(['send', 'p', 'j', '-'], { env, stdin: 'x'.repeat(262_145) });
    expect(exitCode).toBe(2);
    expect(stderr).toContain('262144 bytes');
  });

  test('a wrong Temporal setting', async () => {
    const { exitCode, stderr } = await runCli(['list'], { env: { TEMPORAL_CONFIG_FILE: '/nowhere/temporal.toml' } });
    expect(exitCode).toBe(2);
    expect(stderr).toContain('TEMPORAL_CONFIG_FILE');
  });

  test('missing settings of the worker', async () => {
    const { exitCode, stderr } = await runCli(['worker'], { env });
    expect(exitCode).toBe(2);
    expect(stderr).toContain('AGENT_JOBS_BASE_URL');
    expect(stderr).toContain('AGENT_JOBS_API_KEY');
  });
});

test.each([
  ['dev', '--port', '0'],
  ['dev', '--ui-port', 'x'],
  ['dev', '--port', '17233'],
])('dev refuses a bad port, or a port beside a configured server: %s %s %s', (...args) => expectRefused(args, 'port'));

test('hints use the name by which the command line was called; ids and plain words stay as they are', () => {
  let text = '';
  const stream = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      text += chunk.toString();
      done();
    },
  });
  const output = new Output({ stdout: stream, stderr: stream, command: 'npx follow-up' }, false);
  output.commandNames = ['status', 'doctor'];
  output.note(
    'run "follow-up doctor" or follow-up status follow-up/p/j/k; npx follow-up doctor; the follow-up goes on',
  );
  expect(text).toBe(
    'run "npx follow-up doctor" or npx follow-up status follow-up/p/j/k; npx follow-up doctor; the follow-up goes on\n',
  );
});

test('with --json the error is also one document on stdout', async () => {
  const { exitCode, stdout } = await runCli(['send', 'p', 'j', '--prompt', '', '--json'], { env });
  expect(exitCode).toBe(2);
  expect(JSON.parse(stdout)).toMatchObject({
    error: { type: 'InvalidInput', delivered: 'no', issues: [{ field: 'prompt' }] },
  });
});

test('escape sequences in an argument do not reach the terminal', async () => {
  const { stderr } = await runCli(['resolve', 'follow-up/p/j/k', '\u001b]0;owned\u0007\u009b31mred'], { env });
  // eslint-disable-next-line no-control-regex -- the text must not contain these
  expect(stderr).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
});

describe('help', () => {
  /** Every command, as a reader of the help finds them. */
  async function commandsBelow(...group: string[]): Promise<string[][]> {
    const { stdout } = await runCli([...group, '--help']);
    const [, list = ''] = stdout.split('\nCommands:\n');
    const names = [...list.matchAll(/^ {2}([a-z-]+)/gm)]
      .map(([, name]) => name ?? '')
      .filter((name) => name !== 'help');
    return (await Promise.all(names.map((name) => commandsBelow(...group, name))))
      .flat()
      .concat(names.length > 0 ? [] : [group]);
  }

  test('for every command has an example, fits into 80 columns, and ends with exit code 0', async () => {
    const commands = await commandsBelow();
    expect(commands.length).toBeGreaterThan(27);
    for (const command of [[], ['batch'], ['schedule'], ['budget'], ...commands]) {
      const { exitCode, stdout } = await runCli([...command, '--help']);
      expect(exitCode).toBe(0);
      expect(stdout.split('\n').filter((line) => line.length > 80)).toEqual([]);
      if (!commands.includes(command)) continue;
      expect(stdout).toMatch(/^ {2}\$ /m);
      expect(stdout).toContain(`follow-up ${command.join(' ')}`);
    }
  });

  test('names every exit code', async () => {
    const { stdout } = await runCli(['--help']);
    for (const code of Object.values(ExitCode))
      expect(stdout).toMatch(new RegExp(`^( {2}| .* {3})${code} {2,}\\w`, 'm'));
  });
});

test(
  'a missing Temporal server is reported within seconds with its address, and ends with exit code 5',
  { tags: 'long' },
  async () => {
    const closed = createServer().listen(0, '127.0.0.1');
    await once(closed, 'listening');
    const address = closed.address();
    const target = `127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`;
    closed.close();
    await once(closed, 'close');
    const startedMs = performance.now();
    const run = openCli(['send', 'p', 'j', '-p', 'x', '-k', 'k', '--json'], { env: { TEMPORAL_ADDRESS: target } });
    let hasEnded = false;
    void run.ended.then(() => (hasEnded = true));
    const firstLine = `nothing listens at ${target}; follow-up dev starts a server\n`;
    await eventually('the first line is there', () => run.stderr() === firstLine);
    expect(hasEnded).toBe(false);
    const { exitCode, stdout, stderr } = await run.ended;
    // The attempts end after 7 s. Those of the SDK alone would take more than 20 s.
    expect(performance.now() - startedMs).toBeLessThan(18_000);
    expect(exitCode).toBe(5);
    expect(stderr.slice(firstLine.length)).toMatch(/^error: TemporalUnreachable: .*--key k finds it.*\n$/);
    expect(JSON.parse(stdout)).toMatchObject({
      error: { type: 'TemporalUnreachable', delivered: 'unknown', workflowId: 'follow-up/p/j/k' },
    });
  },
);

test('a command that starts nothing gives no advice on starting again and says nothing about delivery', async () => {
  const env = { TEMPORAL_ADDRESS: '127.0.0.1:1' };
  const { exitCode, stderr } = await runCli(['status', 'follow-up/p/j/k'], { env });
  expect(exitCode).toBe(5);
  expect(stderr).not.toMatch(/--key|delivered/);
  const wrong = await runCli(['budget', 'show', 'a b'], { env });
  expect(wrong.stderr).not.toContain('delivered');
});

test('a Temporal server that accepts and never answers is reported within seconds', { tags: 'long' }, async () => {
  const silent = createServer(() => undefined).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const address = silent.address();
  const target = `127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`;
  const startedMs = performance.now();
  const { exitCode, stderr } = await runCli(['list'], { env: { TEMPORAL_ADDRESS: target } });
  silent.close();
  expect(exitCode).toBe(5);
  expect(stderr).toContain(`Temporal at ${target} cannot be reached`);
  expect(performance.now() - startedMs).toBeLessThan(30_000);
});

test('the prompt is read from its file, so an empty file is an empty prompt', async () => {
  const file = join(await mkdtemp(join(tmpdir(), 'prompt-')), 'prompt.txt');
  await writeFile(file, '');
  const { exitCode, stderr } = await runCli(['send', 'p', 'j', '--prompt-file', file], { env });
  expect(exitCode).toBe(2);
  expect(stderr).toContain('prompt: must not be empty');
});
