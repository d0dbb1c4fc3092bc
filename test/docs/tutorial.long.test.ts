import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { findFreePorts } from '../support/programs.js';
import { type CliRun, startCli } from '../cli/run-cli.js';
import { Reader, shellBlocksOf } from './reader.js';

const PAGE = join(import.meta.dirname, '..', '..', 'docs', 'tutorial.md');
let dev: CliRun | undefined;
let reader: Reader | undefined;
afterAll(async () => {
  dev?.kill('SIGKILL');
  await reader?.close();
});

test('every command of the tutorial runs beside npm start, and ends with the exit code that the page gives', async () => {
  const [start, ...steps] = shellBlocksOf(await readFile(PAGE, 'utf8'));
  expect(start?.commands).toBe('npm ci && npm start\n');
  expect(steps.length).toBeGreaterThan(7);

  const [port, uiPort] = await findFreePorts(2);
  dev = startCli(['dev', '--port', String(port), '--ui-port', String(uiPort)]);
  const isUp = () => dev?.stdout().includes('Temporal UI');
  await eventually('npm start has sent its follow-ups', () => isUp() || undefined, 120_000);
  // `npm start` says to set TEMPORAL_ADDRESS if its port is not the usual one.
  reader = await Reader.open({ TEMPORAL_ADDRESS: `127.0.0.1:${port}` });

  const outputs: string[] = [];
  for (const { commands, prose } of steps) {
    const { output, failed } = await reader.paste(commands);
    const exitCodes = [...prose.matchAll(/exit code (\d+)/g)].map(([, code]) => Number(code));
    expect({ commands, exitCodes: failed.map(({ exitCode }) => exitCode) }, output).toEqual({ commands, exitCodes });
    outputs.push(output);
  }
  const [first = '', second] = outputs.map((text) => /https:\/\/git\.example\/demo\/job-1\/pull\/\d+/.exec(text)?.[0]);
  expect(first).not.toBe('');
  expect(second).toBe(first);
  const output = outputs.join('\n');
  expect(output).toContain('3 of 3 done: 2 completed, 1 failed');
  expect(output).toContain('first-batch-retry-1');

  dev.kill('SIGINT');
  expect((await dev.ended).exitCode).toBe(0);
}, 480_000);
