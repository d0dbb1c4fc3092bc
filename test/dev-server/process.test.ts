import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import ts from 'typescript';
import { startOnFreePorts, startServerProcess, waitUntilReady } from '../../src/dev-server/process.js';
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
    const source = await readFile(new URL('../../src/dev-server/process.ts', import.meta.url), 'utf8');
    const options = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };
    await writeFile(join(directory, 'process.mjs'), ts.transpile(source, options));
    const path = join(directory, 'parent.mjs');
    await writeFile(path, `import { startServerProcess } from './process.mjs';\n${code}`);
    return spawn(process.execPath, [path], { stdio: ['ignore', 'pipe', 'inherit'] });
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

  test('that ends before it is ready is reported with its last output, and started again if its port was taken', async () => {
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
