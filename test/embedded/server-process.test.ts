import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import ts from 'typescript';
import { ServerExitedError, startServerProcess, waitUntilReady } from '../../src/embedded/server-process.js';
import { eventually } from '../support/eventually.js';

const env = process.env;

describe('a server process', () => {
  let directory: string;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'server-process-'));
  });

  afterEach(() => rm(directory, { recursive: true, force: true }));

  /** Starts a process that runs `code`, in which `startServerProcess` is available. */
  async function startParent(code: string) {
    const source = await readFile(new URL('../../src/embedded/server-process.ts', import.meta.url), 'utf8');
    const options = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };
    await writeFile(join(directory, 'server-process.mjs'), ts.transpile(source, options));
    const path = join(directory, 'parent.mjs');
    await writeFile(path, `import { startServerProcess } from './server-process.mjs';\n${code}`);
    return spawn(process.execPath, [path], { stdio: ['ignore', 'pipe', 'inherit'] });
  }

  async function endOf(parent: Awaited<ReturnType<typeof startParent>>) {
    let output = '';
    parent.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const exitCode = await new Promise<unknown>((resolve) => parent.once('close', resolve));
    return { exitCode, output };
  }

  test('dies with its parent, even if the parent is killed by SIGKILL', async () => {
    const parent = await startParent(
      `const server = startServerProcess('sleep', ['1000'], { env: process.env });
       console.log(server.pid);
       setInterval(() => undefined, 1000);`,
    );
    const pid = await new Promise<number>((resolve) =>
      parent.stdout.once('data', (line: Buffer) => resolve(Number(line.toString()))),
    );
    await eventually('the server runs', async () =>
      (await readFile(`/proc/${pid}/cmdline`, 'utf8')).startsWith('sleep'),
    );
    parent.kill('SIGKILL');
    await eventually('the server is gone', () => !isAlive(pid));
  });

  test('does not keep its parent running', async () => {
    const parent = await startParent(`console.log(startServerProcess('sleep', ['1000'], { env: process.env }).pid);`);
    const { exitCode, output } = await endOf(parent);
    expect(exitCode).toBe(0);
    await eventually('the server is gone', () => !isAlive(Number(output)));
  });

  test('is awaited when it is stopped, even if it ignores SIGTERM and its parent has nothing else to do', async () => {
    const parent = await startParent(
      `const stubborn = 'trap "" TERM; echo ready; while :; do sleep 0.1; done';
       let ready;
       const isReady = new Promise((resolve) => (ready = resolve));
       const alive = setInterval(() => undefined, 1000);
       const server = startServerProcess('sh', ['-c', stubborn], { env: process.env, onOutput: ready });
       await isReady;
       clearInterval(alive);
       await server.stop(100);
       console.log('stopped');`,
    );
    expect(await endOf(parent)).toEqual({ exitCode: 0, output: 'stopped\n' });
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

  test('that ends before it is ready is reported with its last output', async () => {
    const server = startServerProcess('sh', ['-c', 'echo "listen tcp: address already in use" >&2; exit 1'], { env });
    const failure = await waitUntilReady('Test server', server, 10_000, () => Promise.resolve(false)).catch(
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(ServerExitedError);
    expect(failure).toMatchObject({ isPortTaken: true, message: expect.stringContaining('already in use') as string });
  });

  test('that is never ready is reported with the reason', async () => {
    const server = startServerProcess('sleep', ['1000'], { env });
    await expect(
      waitUntilReady('Test server', server, 50, () => Promise.reject(new Error('no namespace yet'))),
    ).rejects.toThrow('Test server was not ready within 50 ms (no namespace yet)');
    await server.stop();
  });

  test('whose program does not exist is reported', async () => {
    const server = startServerProcess(join(directory, 'nothing'), [], { env });
    await expect(waitUntilReady('Test server', server, 10_000, () => Promise.resolve(false))).rejects.toThrow(
      /not found/,
    );
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
