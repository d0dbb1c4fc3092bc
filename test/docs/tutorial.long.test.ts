import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { findFreePorts } from '../../src/embedded/server-process.js';
import { eventually } from '../support/eventually.js';
import { type CliRun, startCli } from '../cli/run-cli.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
let dev: CliRun | undefined;
let directory: string | undefined;
afterAll(async () => {
  dev?.kill('SIGKILL');
  if (directory) await rm(directory, { recursive: true });
});

interface Ended {
  exitCode: number | null;
  output: string;
}

/** Runs a block of the page in a directory, as if a reader pasted it. It ends at the first command that fails. */
async function paste(block: string, cwd: string, env: NodeJS.ProcessEnv): Promise<Ended> {
  const child = spawn('bash', ['-e', '-c', block], { cwd, env });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const exitCode = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  return { exitCode, output };
}

test('every command of the tutorial runs beside npm start, and ends with the exit code that the page gives', async () => {
  directory = await mkdtemp(join(tmpdir(), 'tutorial-'));
  // Stands in for `npx follow-up` in a checkout.
  const npx = `#!/bin/sh\nshift\nexec "${process.execPath}" "${join(ROOT, 'bin', 'follow-up.js')}" "$@"\n`;
  await writeFile(join(directory, 'npx'), npx, { mode: 0o755 });

  const page = await readFile(join(ROOT, 'docs', 'tutorial.md'), 'utf8');
  const [, ...parts] = page.split(/^```sh\n/m);
  const steps = parts.map((part) => {
    const [commands = '', prose = ''] = part.split(/^```$/m);
    return { commands, exitCode: Number(/exit code (\d+)/.exec(prose)?.[1] ?? 0) };
  });
  expect(steps.shift()).toEqual({ commands: 'npm ci && npm start\n', exitCode: 0 });
  expect(steps.length).toBeGreaterThan(7);

  const [port, uiPort] = await findFreePorts(2, '127.0.0.1');
  dev = startCli(['dev', '--port', String(port), '--ui-port', String(uiPort)]);
  const isUp = () => dev?.stdout().includes('Temporal UI');
  await eventually('npm start has sent its follow-ups', () => isUp() || undefined, 120_000);
  // `npm start` says to set TEMPORAL_ADDRESS if its port is not the usual one.
  const env = {
    PATH: [directory, process.env['PATH']].join(delimiter),
    HOME: process.env['HOME'],
    NO_COLOR: '1',
    TEMPORAL_ADDRESS: `127.0.0.1:${port}`,
  };

  const outputs: string[] = [];
  let report = '';
  for (const { commands, exitCode } of steps) {
    const ended = await paste(commands, directory, env);
    expect({ commands, exitCode: ended.exitCode }, ended.output).toEqual({ commands, exitCode });
    outputs.push(ended.output);
    if (commands.includes('--csv report.csv')) report = await readFile(join(directory, 'report.csv'), 'utf8');
  }
  const [first = '', second] = outputs.map((text) => /https:\/\/git\.example\/demo\/job-1\/pull\/\d+/.exec(text)?.[0]);
  expect(first).not.toBe('');
  expect(second).toBe(first);
  const output = outputs.join('\n');
  expect(output).toContain('3 of 3 done: 2 completed, 1 failed');
  expect(output).toContain('first-batch-retry-failed-1');
  const [header, ...rows] = report.trim().split('\n');
  expect(header).toContain('status');
  expect(rows).toHaveLength(3);

  dev.kill('SIGINT');
  expect((await dev.ended).exitCode).toBe(0);
}, 480_000);
