import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { Writable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { ExitCode, Output } from '../../src/cli/cli.js';
import { eventually } from '../support/eventually.js';
import { openCli, runCli } from './run-cli.js';

/** Nothing listens there: a command that contacts Temporal ends with exit code 5. */
const AWAY = { TEMPORAL_ADDRESS: '127.0.0.1:1' };
const ITEM = '{"projectId":"p","jobId":"j","prompt":"x"}\n';

const EVERY_SEND_OPTION = [
  '-k ? --lane fast --on-unknown-delivery guess --when-active now --poll-initial-interval 1ms --poll-max-interval x',
  '--poll-backoff-coefficient 11 --settle-time 2h --pr-link-grace 2h --job-timeout 0s --budget-wait-timeout -1s',
].flatMap((options) => options.split(' '));

test.each<[args: string | string[], said: RegExp, stdin?: string | Buffer]>([
  ['sned', /sned.*send/],
  ['send p', /job/],
  ['send p j', /prompt: give it with --prompt, --prompt-file, or -/],
  ['send p j -p x --colour red', /--colour/],
  ['send p j - --prompt x', /set the prompt once/],
  ['send p j -p x --prompt y', /--prompt.*'y'.*set the prompt once/i],
  ['send p j -f /nowhere/prompt.txt', /cannot read \/nowhere\/prompt.txt: ENOENT/],
  // The prompt is what is in the file.
  ['send p j -f /dev/null', /prompt: must not be empty/],
  ['send p j -', /prompt: stdin is not UTF-8/, Buffer.from([0x68, 0xff, 0xfe])],
  ['send p j -', /262144 bytes of UTF-8: stdin is longer/, 'x'.repeat(262_145)],
  [
    ['send', 'a b', '..', '-p', '', ...EVERY_SEND_OPTION],
    /projectId: .*jobId: .*prompt:.*lane:.*onUnknown.*whenActive:.*poll.initial.*poll.max.*poll.back.*settleTime:.*prLinkGrace:.*jobTimeout:.*budgetWait.*key:/,
  ],
  ['status something-else', /workflowId: must be follow-up\//],
  ['status project-budget/p', /workflowId: .*for a budget, run "follow-up budget show"/],
  ['cancel follow-up-batch/nightly', /workflowId: .*for a batch, "follow-up batch status"/],
  ['resolve follow-up-webhook/target/1 sent', /workflowId: .*a webhook is in the Temporal UI$/m],
  [['list', '--state', "x' OR '1'='1", '--project', "p' OR '1'='1"], /project:.*state:/],
  [
    'resolve follow-up/p/j/k perhaps',
    /^error: Usage: decision: 'perhaps' is invalid\. Allowed choices are sent, notSent\.$/m,
  ],
  ['simulator --port x --limit 0 --turn -1', /port: .* 0.*limit: .* at least 1.*turn: must be/],
  ['dev --port x --ui-port 0', /port:.*ui-port:/],
  // A port makes no sense beside a configured server.
  ['dev --port 17233', /port/],
  ['batch run list.jsonl', /--id/],
  ['batch run --id b', /FILE.*--jobs/],
  ['batch run --jobs - --id b', /projectId:.*prompt:/],
  ['batch run - --id b --prompt x', /--jobs/],
  ['batch run --jobs - --project p --id b --prompt -', /not both/],
  [
    ['batch', 'run', '-', '--id', 'a b', ...'--max-open 0 --canary 1.5 --max-failures few --lane fast'.split(' ')],
    /id:.*lane:.*maxOpen:.*canary:.*maxFailures:/,
  ],
  ['batch run - --id b --poll-max-interval 1s', /poll.maxInterval:/],
  [['batch', 'status', 'a b'], /id:/],
  ['batch retry b --only good', /good/],
  [['budget', 'show', 'a b'], /projectId/],
  ['budget set p', /must set at least one of limit, window, reserve/],
  ['budget set p --limit -1 --window x --reserve 1.5', /limit:.*window:.*reserve:/],
  [['budget', 'pause', 'p', '--for', 'ever', '--note', 'x'.repeat(201)], /for: .*ever.*note: must be at most 200/],
  ['budget resume p --now', /--now/],
  ['budget restore ..', /projectId/],
  [
    ['schedule', 'create', 'n', '-', '--cron', '0 2 * *', '--time-zone', 'A/B'],
    /cron: must be minute.*timeZone: .*A\/B/,
  ],
  ['schedule create n - --overlap never', /overlap: .*never/],
  ['schedule create n -', /cron: is required, or every$/m],
  ['schedule create a/b - --every 1h', /name: must be 1 to 128/],
  ['schedule create n /nowhere/b.jsonl --every 1h', /ENOENT/],
  ['schedule create n - --every 1h', /Usage: schedule: stdin: not JSON/, '{\n  "items": [],\n}\n'],
])('%j ends with exit code 2 and one line before Temporal is contacted', async (args, said, stdin = ITEM) => {
  const list = typeof args === 'string' ? args.split(' ') : args;
  const { exitCode, stdout, stderr } = await runCli(list, { env: AWAY, stdin });
  expect({ exitCode, stdout }, stderr).toEqual({ exitCode: 2, stdout: '' });
  expect(stderr).toMatch(said);
  expect(stderr.trim().split('\n')).toHaveLength(1);
});

test.each(['batch run - --id b', 'schedule create n - --every 1h'])(
  '%s names bad lines with their numbers',
  async (args) => {
    const stdin = `${ITEM}{"projectId":"p"}\n7\n${ITEM}`;
    const { exitCode, stdout, stderr } = await runCli([...args.split(' '), '--json'], { env: AWAY, stdin });
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(
      /^error: InvalidInput: stdin: 3 of 4 lines .*\n {2}line 2: jobId: .*; prompt: .*\n {2}line 3: .*\n {2}line 4: .* as line 1 .*\n$/,
    );
    const issues = [{ line: 2, field: 'jobId' }, { line: 2 }, { line: 3 }, { line: 4 }];
    const error = { type: 'InvalidInput', badLineCount: 3, delivered: 'no', issues };
    expect(JSON.parse(stdout)).toMatchObject({ error });
  },
);

test.each<[command: string, env: Record<string, string>, ...names: string[]]>([
  ['list', { TEMPORAL_ADDRESS: 'no port:here', FOLLOW_UP_TASK_QUEUE: '/_sys/x', FOLLOW_UP_BUDGET_LIMIT: '0' }],
  ['list', { TEMPORAL_CONFIG_FILE: '/nowhere/temporal.toml' }],
  ['worker', {}, 'AGENT_JOBS_BASE_URL', 'AGENT_JOBS_API_KEY'],
])('%s with the bad settings %j names each of them', async (command, env, ...names) => {
  const { exitCode, stderr } = await runCli([command], { env });
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

test('the help of every command has an example and fits into 80 columns, and the main help names every exit code', async () => {
  const readBelow = async (...group: string[]): Promise<number> => {
    const { exitCode, stdout } = await runCli([...group, '--help']);
    expect(exitCode).toBe(0);
    expect(stdout.split('\n').filter((line) => line.length > 80)).toEqual([]);
    const names = [...(stdout.split('\nCommands:\n')[1] ?? '').matchAll(/^ {2}(?!help)([a-z-]+)/gm)];
    if (names.length === 0) expect(stdout).toMatch(new RegExp(`\n {2}\\$ [^]*follow-up ${group.join(' ')}`));
    let count = names.length === 0 ? 1 : 0;
    for (const [, name = ''] of names) count += await readBelow(...group, name);
    return count;
  };
  expect(await readBelow()).toBeGreaterThan(27);
  const { stdout } = await runCli(['--help']);
  for (const code of Object.values(ExitCode)) expect(stdout).toMatch(new RegExp(`^( {2}| .* {3})${code} {2,}\\w`, 'm'));
});

test.concurrent.each(['status follow-up/p/j/k', 'schedule list', 'budget set p --limit 5', 'budget show p --watch'])(
  'without Temporal, %s ends with exit code 5, and says nothing about starts and delivery',
  async (command) => {
    const { exitCode, stderr } = await runCli(command.split(' '), { env: AWAY });
    expect(exitCode).toBe(5);
    expect(stderr).toMatch(
      /^nothing listens at 127\.0\.0\.1:1; follow-up dev starts a server\nerror: TemporalUnreachable: /,
    );
    expect(stderr).not.toMatch(/--key|delivered/);
  },
);

test.concurrent('send without Temporal names the key that leads back to its follow-up', async () => {
  const run = await runCli(['send', 'p', 'j', '-p', 'x', '-k', 'k', '--json'], { env: AWAY });
  expect(run).toMatchObject({ exitCode: 5, stderr: expect.stringMatching(/^error: .*--key k returns to it/m) });
  const error = { type: 'TemporalUnreachable', delivered: 'unknown', workflowId: 'follow-up/p/j/k' };
  expect(JSON.parse(run.stdout)).toMatchObject({ error });
});

test.concurrent.each([{ TEMPORAL_TLS: 'true' }, { TEMPORAL_API_KEY: 'sk-key-without-tls' }])(
  'TLS to a server without it is reported in words, with the settings that turn it on: %j',
  async (tls) => {
    const { exitCode, stderr } = await runCli(['list'], {
      env: { TEMPORAL_ADDRESS: inject('temporalAddress'), ...tls },
    });
    expect({ exitCode, stderr }).toEqual({
      exitCode: 5,
      stderr: expect.stringMatching(/^error: .*Temporal at \S+ does not speak TLS; check TEMPORAL_TLS.*API_KEY/m),
    });
    expect(stderr).not.toMatch(/SSL|openssl|record|Last error/);
  },
);

describe('a Temporal server that accepts and never answers', { tags: 'long' }, () => {
  const silent = createServer(() => undefined);
  let env: Record<string, string>;
  beforeAll(async () => {
    await once(silent.listen(0, '127.0.0.1'), 'listening');
    env = { TEMPORAL_ADDRESS: `127.0.0.1:${(silent.address() as AddressInfo).port}` };
  });
  afterAll(() => silent.close());

  test('is reported', async () => {
    const stderr = expect.stringContaining(`Temporal at ${env['TEMPORAL_ADDRESS']} cannot`);
    expect(await runCli(['list'], { env })).toMatchObject({ exitCode: 5, stderr });
  });

  test('lets a command end at the second Ctrl-C, if that comes at least a second after the first', async () => {
    // The start is tried until its deadline, whatever the signals.
    const connected = once(silent, 'connection');
    const run = openCli(['send', 'p', 'j', '-p', 'x', '--json'], { env });
    await connected;
    run.kill('SIGINT');
    run.kill('SIGINT');
    const startedMs = performance.now();
    await eventually('a second has passed', () => performance.now() - startedMs > 1_000);
    run.kill('SIGINT');
    expect(await run.ended).toMatchObject({ exitCode: 130, stdout: '' });
  });
});
