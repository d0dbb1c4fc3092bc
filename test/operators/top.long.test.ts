import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Board } from '../../src/cli/board.js';
import { startDevServer, type DevServer } from '../../src/embedded/dev-server.js';
import { openCli, runCli } from '../cli/run-cli.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

let server: DevServer;
let stack: Stack | undefined;
let env: Record<string, string>;
const taskQueue = 'board';
beforeAll(async () => {
  // The board shows a whole namespace, so other tests may leave nothing in it.
  server = await startDevServer({ env: process.env });
  env = { TEMPORAL_ADDRESS: server.address, FOLLOW_UP_TASK_QUEUE: taskQueue };
});
afterAll(async () => {
  await stack?.stop();
  await server.stop();
});

const terminal = { columns: 200, rows: 50 };
/** What the terminal shows: everything that was written since the last frame was erased. */
const screen = (written: string) => written.split('\u001b[2K').at(-1)?.replace('\u001b[G', '') ?? '';

test('without a server, top says so and names the next step, and ends with exit code 5 in a pipe', async () => {
  const run = openCli(['top', '--interval', '500ms'], { env: { TEMPORAL_ADDRESS: '127.0.0.1:1' }, terminal });
  await eventually('it says so', () =>
    /nothing listens at 127\.0\.0\.1:1; .*run follow-up doctor/.test(screen(run.stdout())),
  );
  expect(screen(run.stdout())).toContain('nothing is known yet');
  run.kill('SIGINT');
  expect(await run.ended).toMatchObject({ exitCode: 130, stderr: '' });
  const piped = await runCli(['top'], { env: { TEMPORAL_ADDRESS: '127.0.0.1:1' } });
  expect(piped.exitCode).toBe(5);
});

test('top says that no worker polls, continues when one does, and shows projects and what needs attention', async () => {
  // A list needs the search attributes, which a worker would register.
  await runCli(['setup'], { env });
  const run = openCli(['top', '--interval', '500ms'], { env, terminal });
  const shows = (what: string, pattern: RegExp) => eventually(what, () => pattern.test(screen(run.stdout())), 60_000);
  await shows('it says that no worker polls', /no worker polls task queue board; run follow-up doctor/);
  const piped = await runCli(['top'], { env });
  expect(piped.exitCode).toBe(1);
  expect(piped.stdout).toContain('no worker polls task queue board; run follow-up doctor');

  const { followUps, simulator } = (stack = await startStack({
    address: server.address,
    taskQueue,
    env: { FOLLOW_UP_BUDGET_LIMIT: '2', FOLLOW_UP_SEND_TIMEOUT: '1s', FOLLOW_UP_DRAIN: '1s' },
    simulator: { autoCreate: true },
  }));
  await shows('the worker is there', /no project has a budget yet[^]*nothing needs attention/);

  simulator.failNext({ method: 'POST', projectId: 'shop', jobId: 'lost', kind: 'resetBefore' });
  const lost = await followUps.start({ projectId: 'shop', jobId: 'lost', prompt: 'Add tests.', key: 'k', ...FAST });
  await followUps.start({ projectId: 'shop', jobId: 'stuck-1', prompt: 'Add tests.', ...FAST });
  await expect(lost.result()).rejects.toThrow();
  await followUps.start({ projectId: 'shop', jobId: 'late', prompt: 'Add tests.', lane: 'batch', ...FAST });
  await shows('the queue of the project', /^shop +2 of 2 in 1 h +0 +1 +0 +1 +(?:\S+ )?\d\d:\d\d:\d\d \S+ +sends$/m);
  await shows(
    'what is in doubt',
    /1 needs attention:\n {2}follow-up\/shop\/lost\/k has ended, and whether its message was delivered is not known .*\n {4}-> look at the job/,
  );
  await followUps.budget('shop').pause({ note: 'freeze' });
  await shows(
    'the pause',
    /paused: operator \(freeze\)[^]*is paused by an operator[^]*-> follow-up budget resume shop/,
  );
  run.kill('SIGINT');
  expect(await run.ended).toMatchObject({ exitCode: 130, stderr: '' });
});

test('with --json, top prints one document for each change until Ctrl-C; in a pipe, it prints the board once', async () => {
  const run = openCli(['top', '--json', '--interval', '500ms'], { env });
  const documents = () =>
    run
      .stdout()
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Board);
  await eventually('the first document', () => documents().length > 0);
  await stack?.followUps.budget('shop').resume();
  await eventually('the end of the pause', () => documents().at(-1)?.projects[0]?.status?.paused === undefined);
  run.kill('SIGTERM');
  expect((await run.ended).exitCode).toBe(130);
  expect(documents()[0]).toMatchObject({
    namespace: 'default',
    projects: [{ projectId: 'shop', unknown: 1, status: { used: 2, waitingInBatchLane: 1, paused: {} } }],
  });
  const lines = documents().map(({ asOf: _asOf, ...rest }) => JSON.stringify(rest));
  expect(lines.every((line, index) => line !== lines[index - 1])).toBe(true);

  const piped = await runCli(['top'], { env });
  expect(piped).toMatchObject({ exitCode: 0, stderr: '' });
  expect(piped.stdout).toMatch(/^shop +2 of 2 in 1 h/m);
});

test('an invalid interval ends with exit code 2', async () => {
  const { exitCode, stderr } = await runCli(['top', '--interval', 'often'], { env });
  expect({ exitCode, stderr }).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('interval:') });
});
