import { spawn, spawnSync, type StdioOptions } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync } from 'node:fs';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { expect, inject, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { openCli, startCli } from './run-cli.js';

// These tests need a process of their own. The other tests run the commands in one process.

test('the executable returns the exit code of the command, and writes data to stdout and everything else to stderr', async () => {
  const [version, wrong, bare] = await Promise.all([
    startCli(['--version']).ended,
    startCli(['send', 'p', 'j', '--prompt', '', '--json']).ended,
    startCli([]).ended,
  ]);
  expect(version).toEqual({ exitCode: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/), stderr: '' });
  expect(wrong.exitCode).toBe(2);
  expect(JSON.parse(wrong.stdout)).toMatchObject({ error: { type: 'InvalidInput' } });
  expect(wrong.stderr).toMatch(/^error: InvalidInput: prompt: .*\n$/);
  expect(bare).toEqual({ exitCode: 2, stdout: '', stderr: expect.stringContaining('Usage: follow-up') });
});

test('the executable reads stdin and takes its settings from the environment', async () => {
  const stdin = '{"projectId":"p"}\n';
  const run = startCli(['batch', 'run', '-', '--id', 'b'], { stdin }).ended;
  const setting = startCli(['list'], { env: { TEMPORAL_CONFIG_FILE: '/nowhere/temporal.toml' } }).ended;
  expect((await run).stderr).toContain('stdin: 1 of 1 line invalid');
  expect((await setting).stderr).toContain('TEMPORAL_CONFIG_FILE');
});

test('a reader that closes the pipe early ends the command silently', async () => {
  const command = fileURLToPath(new URL('../../bin/follow-up.js', import.meta.url));
  const child = spawn(process.execPath, [command, 'simulator', '--port', '0', '--json'], { stdio: 'pipe' });
  child.stdout.destroy();
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const [exitCode] = (await once(child, 'close')) as [number];
  expect({ exitCode, stderr: stderr.replace('simulated agent job service is up; Ctrl-C ends it\n', '') }).toEqual({
    exitCode: 0,
    stderr: '',
  });
});

test(
  'a second Ctrl-C, at least a second after the first, ends a command that is still running',
  { tags: 'long' },
  async () => {
    // A server that accepts and never answers. The start is tried until its deadline, whatever the signals.
    const silent = createServer(() => undefined).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const address = silent.address();
    const target = `127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`;
    const [connected, run] = [
      once(silent, 'connection'),
      openCli(['send', 'p', 'j', '-p', 'x', '--json'], { env: { TEMPORAL_ADDRESS: target } }),
    ];
    await connected;
    const startedMs = performance.now();
    run.kill('SIGINT');
    run.kill('SIGINT');
    await eventually('it accepts the next Ctrl-C', () => {
      if (performance.now() - startedMs > 1_000) run.kill('SIGINT');
      return performance.now() - startedMs > 1_000;
    });
    expect(await run.ended).toMatchObject({ exitCode: 130, stdout: '' });
    silent.close();
  },
);

test('a checkout, which puts nothing on the PATH, says to run npx follow-up', async () => {
  const { exitCode, stderr } = await startCli(['list'], { env: { TEMPORAL_ADDRESS: '127.0.0.1:1' } }).ended;
  expect(exitCode).toBe(5);
  expect(stderr).toMatch(/^nothing listens at 127\.0\.0\.1:1; npx follow-up dev starts a server$/m);
});

test.each(['grpc_proxy', 'https_proxy', 'http_proxy'])(
  '%s does not capture the connection to Temporal',
  async (name) => {
    const env = { TEMPORAL_ADDRESS: inject('temporalAddress'), [name]: 'http://127.0.0.1:9' };
    const { exitCode, stderr } = await startCli(['schedule', 'list'], { env }).ended;
    expect(exitCode, stderr).toBe(0);
  },
);

test.skipIf(!existsSync('/dev/full'))(
  'a command whose stdout is full says so in one line, and one whose stderr is full does its work',
  async () => {
    const command = fileURLToPath(new URL('../../bin/follow-up.js', import.meta.url));
    const full = openSync('/dev/full', 'w');
    const env = { ...process.env, TEMPORAL_ADDRESS: '127.0.0.1:1' };
    const run = (args: string[], stdio: StdioOptions) =>
      spawnSync(process.execPath, [command, ...args], { stdio, env, encoding: 'utf8' });
    const noRoom = run(['--help'], ['ignore', full, 'pipe']);
    expect(noRoom.status).toBe(1);
    expect(noRoom.stderr).toMatch(/^error: Output: stdout cannot be written: ENOSPC.*$/m);
    expect(noRoom.stderr).not.toContain('    at ');
    expect(run(['list'], ['ignore', 'pipe', full]).status).toBe(5);
    closeSync(full);
  },
);
