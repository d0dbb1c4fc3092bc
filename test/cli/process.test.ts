import { spawn, spawnSync, type StdioOptions } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, inject, test } from 'vitest';
import { startCli } from './run-cli.js';

// These tests need a process of their own. The other tests run the commands in one process.

const command = fileURLToPath(new URL('../../bin/follow-up.js', import.meta.url));

test('the executable reads stdin, writes data to stdout and everything else to stderr, and returns the exit code', async () => {
  const version = await startCli(['--version']).ended;
  expect(version).toEqual({ exitCode: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/), stderr: '' });
  const bad = await startCli(['batch', 'run', '-', '--id', 'b', '--json'], { stdin: '{"projectId":"p"}\n' }).ended;
  expect(bad).toMatchObject({ exitCode: 2, stderr: expect.stringMatching(/^error: InvalidInput: stdin: 1 of 1 line/) });
  expect(JSON.parse(bad.stdout)).toMatchObject({ error: { type: 'InvalidInput' } });
  expect(bad.stderr).not.toContain('    at ');
  // A checkout puts nothing on the PATH.
  const away = await startCli(['list'], { env: { TEMPORAL_ADDRESS: '127.0.0.1:1' } }).ended;
  expect(away).toMatchObject({ exitCode: 5, stderr: expect.stringContaining('; npx follow-up dev starts a server\n') });
});

test('no proxy variable captures the connection to Temporal', async () => {
  const proxy = 'http://127.0.0.1:9';
  const env = { TEMPORAL_ADDRESS: inject('temporalAddress'), grpc_proxy: proxy, https_proxy: proxy, http_proxy: proxy };
  expect(await startCli(['schedule', 'list'], { env }).ended).toMatchObject({ exitCode: 0 });
});

test('a reader that closes the pipe early ends the command silently', async () => {
  const child = spawn(process.execPath, [command, 'simulator', '--port', '0', '--json'], { stdio: 'pipe' });
  child.stdout.destroy();
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const [exitCode] = (await once(child, 'close')) as [number];
  expect(stderr).toMatch(/^(simulated agent job service is up; Ctrl-C ends it\n)?$/);
  expect(exitCode).toBe(0);
});

test.skipIf(!existsSync('/dev/full'))(
  'a command whose stdout is full says so in one line, and one whose stderr is full does its work',
  () => {
    const full = openSync('/dev/full', 'w');
    const env = { ...process.env, TEMPORAL_CONFIG_FILE: '/nowhere/temporal.toml' };
    const run = (args: string[], stdio: StdioOptions) =>
      spawnSync(process.execPath, [command, ...args], { stdio, env, encoding: 'utf8' });
    const noRoom = run(['--help'], ['ignore', full, 'pipe']);
    expect(noRoom.status).toBe(1);
    expect(noRoom.stderr).toMatch(/^error: Output: stdout cannot be written: ENOSPC.*\n$/);
    const { status, stdout } = run(['list', '--json'], ['ignore', 'pipe', full]);
    expect({ status, stdout }).toEqual({ status: 2, stdout: expect.stringContaining('TEMPORAL_CONFIG_FILE') });
    closeSync(full);
  },
);
