import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import ts from 'typescript';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startOnFreePorts, startServerProcess, waitUntilReady } from '../../src/dev-server/process.js';
import { eventually } from '../support/eventually.js';

const env = process.env;

describe('a server process', () => {
  test('dies with its parent, even if the parent is killed by SIGKILL', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'server-process-'));
    onTestFinished(() => rm(directory, { recursive: true }));
    const source = await readFile(new URL('../../src/dev-server/process.ts', import.meta.url), 'utf8');
    const options = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };
    await writeFile(join(directory, 'process.mjs'), ts.transpile(source, options));
    await writeFile(
      join(directory, 'parent.mjs'),
      `import { startServerProcess } from './process.mjs';
       console.log(startServerProcess('sleep', ['1000'], { env: process.env }).pid);
       setInterval(() => undefined, 1000);`,
    );
    const parent = spawn(process.execPath, [join(directory, 'parent.mjs')], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [line] = (await once(parent.stdout, 'data')) as [Buffer];
    const pid = Number(line.toString());
    const commandLine = () => readFile(`/proc/${pid}/cmdline`, 'utf8');
    await eventually('the server runs', async () => (await commandLine()).startsWith('sleep'));
    parent.kill('SIGKILL');
    await eventually('the server is gone', () => !isAlive(pid));
  });

  test('is stopped by SIGKILL if it ignores SIGTERM', async () => {
    let output = '';
    const server = startServerProcess('sh', ['-c', 'trap "" TERM; echo deaf; while :; do sleep 0.05; done'], {
      env,
      onOutput: (text) => (output += text),
    });
    await eventually('it ignores SIGTERM', () => output.includes('deaf'));
    await server.stop(100);
    expect(server.hasExited()).toBe(true);
    expect(isAlive(server.pid)).toBe(false);
    await server.stop();
  });

  test('takes with it what it has started, which also keeps its output open', async () => {
    let output = '';
    const server = startServerProcess('sh', ['-c', 'sleep 1000 & echo $!; wait'], {
      env,
      onOutput: (text) => (output += text),
    });
    await eventually('it has started another', () => output.endsWith('\n'));
    await server.kill('SIGKILL');
    await eventually('the other is gone', () => !isAlive(Number(output)));
  });

  test('is reported with its last output if it ends before it is ready, and started again if its port was taken', async () => {
    const start = async (text: string) => {
      const server = startServerProcess('sh', ['-c', `echo "${text}" >&2; exit 3`], { env });
      await waitUntilReady('Test server', server, 10_000, async () => {
        expect(await server.exited).toBe(3);
        return false;
      });
    };
    let starts = 0;
    const outputs = ['listen tcp: address already in use', 'out of memory'];
    await expect(startOnFreePorts(() => start(outputs[starts++] ?? ''))).rejects.toThrow(
      'Test server ended before it was ready. Its last output: out of memory',
    );
    expect(starts).toBe(2);
  });

  test('is reported with the reason if it is never ready or its program does not exist', async () => {
    const server = startServerProcess('sleep', ['1000'], { env });
    const isReady = () => Promise.reject(new Error('no namespace yet'));
    const problem = 'Test server was not ready within 50 ms (no namespace yet)';
    await expect(waitUntilReady('Test server', server, 50, isReady)).rejects.toThrow(problem);
    await server.stop();
    const missing = startServerProcess('/no/such/program', [], { env });
    await expect(waitUntilReady('Test server', missing, 10_000, isReady)).rejects.toThrow(/not found/);
  });
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
