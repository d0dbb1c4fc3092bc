import { createServer } from 'node:net';
import { once } from 'node:events';
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
const addressOf = (server: typeof temporal) => {
  const address = server.address();
  return `127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`;
};
beforeAll(async () => {
  await once(temporal.listen(0, '127.0.0.1'), 'listening');
});
afterAll(() => temporal.close());

const SEND = ['send', 'p', 'j', '-p', 'x'];
const BATCH = ['batch', 'run', '-', '--id', 'b'];
const EVERY_SEND_OPTION = {
  ...{ '-k': '?', '--lane': 'fast', '--on-unknown-delivery': 'guess', '--when-active': 'now' },
  ...{ '--poll-initial-interval': '1ms', '--poll-max-interval': 'x', '--poll-backoff-coefficient': '11' },
  ...{ '--settle-time': '2h', '--pr-link-grace': '2h', '--job-timeout': '0s', '--budget-wait-timeout': '-1s' },
};
const EVERY_BATCH_OPTION = { '--max-open': '0', '--canary': '1.5', '--max-failures': 'few', '--lane': 'fast' };
const optionsOf = (options: object) => Object.entries(options).flat() as string[];

test.each<[args: string[], ...said: (string | RegExp)[]]>([
  [['sned'], 'sned', 'send'],
  [['send', 'p'], 'job'],
  [['send', 'p', 'j'], 'prompt: give it with --prompt, --prompt-file, or -'],
  [[...SEND, '--colour', 'red'], '--colour'],
  [['send', 'p', 'j', '-', '--prompt', 'x'], 'set the prompt once'],
  [['send', 'p', 'j', '-f', '/nowhere/prompt.txt'], 'cannot read /nowhere/prompt.txt: ENOENT'],
  // The prompt is what is in the file.
  [['send', 'p', 'j', '-f', '/dev/null'], 'prompt: must not be empty'],
  [
    ['send', 'a b', '..', '-p', '', ...optionsOf(EVERY_SEND_OPTION)],
    /projectId: .* jobId: .*".."/,
    ...['prompt:', 'key:', 'lane:', 'onUnknownDelivery:', 'whenActive:', 'settleTime:', 'prLinkGrace:', 'jobTimeout:'],
    ...['budgetWaitTimeout:', 'poll.initialInterval:', 'poll.maxInterval:', 'poll.backoffCoefficient:'],
  ],
  [['status', 'something-else'], 'workflowId'],
  [['list', '--state', "x' OR '1'='1", '--project', "p' OR '1'='1"], 'state:', 'project:'],
  [['resolve', 'follow-up/p/j/k', 'perhaps'], 'word', 'perhaps'],
  [['simulator', '--port', 'x', '--limit', '0', '--turn', '-1'], /port: .* 0.*limit: .* at least 1.*turn: must be/],
  [['dev', '--port', 'x', '--ui-port', '0'], 'port:', 'ui-port:'],
  // A port makes no sense beside a configured server.
  [['dev', '--port', '17233'], 'port'],
  [['batch', 'run', 'list.jsonl'], '--id'],
  [['batch', 'run', '--id', 'b'], 'FILE', '--jobs'],
  [['batch', 'run', '--jobs', '-', '--id', 'b'], 'projectId:', 'prompt:'],
  [[...BATCH, '--prompt', 'x'], '--jobs'],
  [['batch', 'run', '--jobs', '-', '--project', 'p', '--id', 'b', '--prompt', '-'], 'not both'],
  [
    ['batch', 'run', '-', '--id', 'a b', ...optionsOf(EVERY_BATCH_OPTION)],
    ...['id:', 'maxOpen:', 'canary:', 'maxFailures:', 'lane:'],
  ],
  [[...BATCH, '--poll-max-interval', '1s'], 'poll.maxInterval:'],
  [['batch', 'status', 'a b'], 'id:'],
  [['batch', 'retry', 'b', '--only', 'good'], 'good'],
  [['budget', 'show', 'a b'], 'projectId'],
  [['budget', 'set', 'p'], 'must set at least one of limit, window, reserve'],
  [['budget', 'set', 'p', '--limit', '-1', '--window', 'x', '--reserve', '1.5'], 'limit:', 'window:', 'reserve:'],
  [['budget', 'pause', 'p', '--for', 'ever', '--note', 'x'.repeat(201)], /for: .*ever.*note: must be at most 200/],
  [['budget', 'resume', 'p', '--now'], '--now'],
  [['budget', 'restore', '..'], 'projectId'],
  [
    ['schedule', 'create', 'n', '-', '--cron', '0 2 * *', '--time-zone', 'A/B'],
    /cron: must be minute.*timeZone: .*A\/B/,
  ],
  [['schedule', 'create', 'n', '-', '--overlap', 'never'], /overlap: .*never/],
  [['schedule', 'create', 'n', '-'], 'cron: cron or every is required'],
  [['schedule', 'create', 'a/b', '-', '--every', '1h'], 'name: must be 1 to 128'],
  [['schedule', 'create', 'n', '/nowhere/b.jsonl', '--every', '1h'], 'ENOENT'],
])('%j ends with exit code 2 and one line before Temporal is contacted', async (args, ...said) => {
  const stdin = '{"projectId":"p","jobId":"j","prompt":"x"}\n';
  const { exitCode, stdout, stderr } = await runCli(args, { env: { TEMPORAL_ADDRESS: addressOf(temporal) }, stdin });
  expect({ exitCode, stdout }, stderr).toEqual({ exitCode: 2, stdout: '' });
  for (const text of said) expect(stderr).toMatch(text);
  expect(stderr.trim().split('\n')).toHaveLength(1);
  expect(connections).toBe(0);
});

test.each<[what: string, args: string[], stdin: string | Buffer, said: string]>([
  ['not UTF-8', ['send', 'p', 'j', '-'], Buffer.from([0x68, 0xff, 0xfe]), 'prompt: stdin is not UTF-8'],
  ['above 256 KiB', ['send', 'p', 'j', '-'], 'x'.repeat(262_145), '262144 bytes of UTF-8: stdin is longer'],
  [
    'a document with a typo',
    ['schedule', 'create', 'n', '-', '--every', '1h'],
    '{\n  "items": [],\n}\n',
    'Usage: schedule: stdin: not JSON',
  ],
  ['not an object', ['schedule', 'create', 'n', '-', '--every', '1h'], 'null', '1 of 1 line invalid'],
])('an input from stdin that is %s ends with exit code 2', async (_what, args, stdin, said) => {
  const { exitCode, stderr } = await runCli(args, { env: { TEMPORAL_ADDRESS: addressOf(temporal) }, stdin });
  expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: expect.stringContaining(said) });
});

test.each(['batch run - --id b', 'schedule create n - --every 1h'])(
  '%s names bad lines with their numbers',
  async (args) => {
    const good = '{"projectId":"p","jobId":"j","prompt":"x"}\n';
    const env = { TEMPORAL_ADDRESS: addressOf(temporal) };
    const stdin = `${good}{"projectId":"p"}\n7\n${good}`;
    const { exitCode, stdout, stderr } = await runCli([...args.split(' '), '--json'], { env, stdin });
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(
      /^error: InvalidInput: stdin: 3 of 4 lines .*\n {2}line 2: jobId: .*; prompt: .*\n {2}line 3: .*\n {2}line 4: .* as line 1 .*\n$/,
    );
    const issues = [{ line: 2, field: 'jobId' }, { line: 2 }, { line: 3 }, { line: 4 }];
    expect(JSON.parse(stdout)).toMatchObject({
      error: { type: 'InvalidInput', badLineCount: 3, delivered: 'no', issues },
    });
  },
);

test.each<[args: string[], env: Record<string, string>, ...names: string[]]>([
  [['list'], { TEMPORAL_ADDRESS: 'no port:here', FOLLOW_UP_TASK_QUEUE: '/_sys/x', FOLLOW_UP_BUDGET_LIMIT: '0' }],
  [['list'], { TEMPORAL_CONFIG_FILE: '/nowhere/temporal.toml' }],
  [['worker'], {}, 'AGENT_JOBS_BASE_URL', 'AGENT_JOBS_API_KEY'],
])('%j with bad settings %j names each', async (args, env, ...names) => {
  const { exitCode, stderr } = await runCli(args, { env });
  expect(exitCode).toBe(2);
  for (const name of [...names, ...Object.keys(env)]) expect(stderr).toContain(name);
});

test('hints use the name by which the command line was called; ids and plain words stay as they are', () => {
  let text = '';
  const stream = new Writable({ write: (chunk: Buffer, _encoding, done) => ((text += chunk.toString()), done()) });
  const output = new Output({ stdout: stream, stderr: stream, command: 'npx follow-up' }, false);
  output.commandNames = ['status', 'doctor'];
  output.note('"follow-up doctor", follow-up status follow-up/p/j/k; npx follow-up doctor; the follow-up goes on');
  expect(text).toBe(
    '"npx follow-up doctor", npx follow-up status follow-up/p/j/k; npx follow-up doctor; the follow-up goes on\n',
  );
});

test('escape sequences in an argument do not reach the terminal', async () => {
  const { stderr } = await runCli(['resolve', 'follow-up/p/j/k', '\u001b]0;owned\u0007\u009b31mred']);
  // eslint-disable-next-line no-control-regex -- the text must not contain these
  expect(stderr).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
});

test('the help of every command has an example, fits into 80 columns, and names every exit code', async () => {
  const commands: string[] = [];
  const readBelow = async (...group: string[]): Promise<void> => {
    const { exitCode, stdout } = await runCli([...group, '--help']);
    expect(exitCode).toBe(0);
    expect(stdout.split('\n').filter((line) => line.length > 80)).toEqual([]);
    const [, list] = stdout.split('\nCommands:\n');
    const below = [...(list ?? '').matchAll(/^ {2}([a-z-]+)/gm)].flatMap(([, name = '']) =>
      name === 'help' ? [] : name,
    );
    for (const name of below) await readBelow(...group, name);
    if (below.length > 0) return;
    expect(stdout).toMatch(new RegExp(`\n {2}\\$ [^]*follow-up ${group.join(' ')}`));
    commands.push(group.join(' '));
  };
  await readBelow();
  expect(commands.length).toBeGreaterThan(27);
  const { stdout } = await runCli(['--help']);
  for (const code of Object.values(ExitCode)) expect(stdout).toMatch(new RegExp(`^( {2}| .* {3})${code} {2,}\\w`, 'm'));
});

test.concurrent(
  'without Temporal a command ends with exit code 5, and says nothing about starts and delivery',
  async () => {
    const env = { TEMPORAL_ADDRESS: '127.0.0.1:1' };
    const commands = ['status follow-up/p/j/k', 'schedule list', 'budget set p --limit 5', 'budget show p --watch'];
    const ended = await Promise.all(commands.map((command) => runCli(command.split(' '), { env })));
    expect(ended.map(({ exitCode }) => exitCode)).toEqual(commands.map(() => 5));
    for (const { stderr } of ended) {
      expect(stderr).toMatch(
        /^nothing listens at 127\.0\.0\.1:1; follow-up dev starts a server\nerror: TemporalUnreachable: /,
      );
      expect(stderr).not.toMatch(/--key|delivered/);
    }
  },
);

test.concurrent('a start without Temporal says how to come back', async () => {
  const args = [...SEND, '-k', 'k', '--json'];
  const { exitCode, stdout, stderr } = await runCli(args, { env: { TEMPORAL_ADDRESS: '127.0.0.1:1' } });
  expect({ exitCode, stderr }).toEqual({
    exitCode: 5,
    stderr: expect.stringMatching(/^error: .*--key k returns to it/m),
  });
  const error = { type: 'TemporalUnreachable', delivered: 'unknown', workflowId: 'follow-up/p/j/k' };
  expect(JSON.parse(stdout)).toMatchObject({ error });
});

describe('a Temporal server that accepts and never answers', { tags: 'long' }, () => {
  const silent = createServer(() => undefined);
  beforeAll(() => once(silent.listen(0, '127.0.0.1'), 'listening'));
  afterAll(() => silent.close());

  test('is reported within seconds', async () => {
    const startedMs = performance.now();
    const { exitCode, stderr } = await runCli(['list'], { env: { TEMPORAL_ADDRESS: addressOf(silent) } });
    expect({ exitCode, stderr }).toEqual({
      exitCode: 5,
      stderr: expect.stringContaining(`Temporal at ${addressOf(silent)} cannot`),
    });
    expect(performance.now() - startedMs).toBeLessThan(30_000);
  });

  test('does not keep a command from its end at the second Ctrl-C, at least a second after the first', async () => {
    // The start is tried until its deadline, whatever the signals.
    const connected = once(silent, 'connection');
    const run = openCli([...SEND, '--json'], { env: { TEMPORAL_ADDRESS: addressOf(silent) } });
    await connected;
    run.kill('SIGINT');
    run.kill('SIGINT');
    const startedMs = performance.now();
    await eventually('a second has passed', () => performance.now() - startedMs > 1_000);
    run.kill('SIGINT');
    expect(await run.ended).toMatchObject({ exitCode: 130, stdout: '' });
  });
});
