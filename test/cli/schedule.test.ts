import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { eventually } from '../support/eventually.js';
import { runCli } from './run-cli.js';

let client: Client;
let connection: Connection;
let env: Record<string, string>;
let folder: string;
const names: string[] = [];

beforeAll(async () => {
  const address = inject('temporalAddress');
  connection = await Connection.connect({ address });
  await ensureSearchAttributes(connection, 'default');
  client = new Client({ connection });
  // No worker polls this queue, so a batch runs until the test ends it.
  env = { TEMPORAL_ADDRESS: address, FOLLOW_UP_TASK_QUEUE: `nobody-${randomUUID()}` };
  folder = await mkdtemp(join(tmpdir(), 'schedule-'));
});
afterAll(async () => {
  await Promise.all(
    names.map((name) =>
      client.schedule
        .getHandle(name)
        .delete()
        .catch(() => undefined),
    ),
  );
  await connection.close();
  await rm(folder, { recursive: true });
});

const schedule = (args: readonly string[], stdin?: string) =>
  runCli(['schedule', ...args], { env, ...(stdin !== undefined && { stdin }) });
const newName = () => {
  const name = `cli-${randomUUID().slice(0, 8)}`;
  names.push(name);
  return name;
};
const line = (jobId: string, more: object = {}) =>
  JSON.stringify({ projectId: 'cli-schedules', jobId, prompt: 'Update the dependencies.', ...more });
const lines = `${line('job-1')}\n\n${line('job-2')}\n`;
async function file(content: string): Promise<string> {
  const path = join(folder, randomUUID());
  await writeFile(path, content);
  return path;
}
const documentOf = (stdout: string) => JSON.parse(stdout) as Record<string, unknown>;

test('a schedule is created, shown, paused, resumed, triggered and deleted', async () => {
  const name = newName();
  const path = await file(lines);
  const created = await schedule(['create', name, path, '--cron', '30 4 * * 1-5', '--time-zone', 'Europe/Berlin']);
  expect(created.exitCode, created.stderr).toBe(0);
  expect(created.stdout).toContain('fires     cron 30 4 * * 1-5, Europe/Berlin');
  expect(created.stdout).toContain('batch     2 follow-ups of cli-schedules');
  expect(created.stdout).toMatch(/^next( +\d{4}-\d\d-\d\d 04:30:00 Europe\/Berlin\n){5}/m);

  const paused = await schedule(['pause', name, '--note', 'release freeze', '--json']);
  expect(documentOf(paused.stdout)).toEqual({ name, paused: true });
  expect((await schedule(['describe', name])).stdout).toMatch(/^schedule {2}\S+, paused\nnote {6}release freeze$/m);
  expect((await schedule(['trigger', name])).stdout).toContain(`${name} fires`);
  const batchId = await eventually('it has fired', async () => {
    const { stdout } = await schedule(['describe', name, '--json']);
    return (JSON.parse(stdout) as { runningBatchIds: string[] }).runningBatchIds[0];
  });
  expect((await schedule(['resume', name])).stdout).toBe(`${name} is resumed\n`);

  const listed = await eventually('it is listed', async () => {
    const { stdout } = await schedule(['list', '--json']);
    return stdout.split('\n').find((text) => text.includes(name));
  });
  expect(documentOf(listed)).toMatchObject({
    name,
    paused: false,
    counts: { fired: 1, skipped: 0, missed: 0 },
    recentFirings: [{ batchId }],
  });
  expect((await schedule(['list'])).stdout).toMatch(new RegExp(`^${name} .* 04:30:00 Europe/Berlin .*cron`, 'm'));
  const shown = await schedule(['describe', name]);
  expect(shown.stdout).toContain('so far    1 fired, 0 skipped by the overlap policy, 0 missed');
  expect(shown.stdout).toContain(`latest    ${batchId}\nrunning   ${batchId}`);
  await client.workflow.getHandle(`follow-up-batch/${batchId}`).terminate();

  expect((await schedule(['delete', name])).stdout).toBe(`${name} is deleted\n`);
  const gone = await schedule(['describe', name, '--json']);
  expect(gone.exitCode).toBe(2);
  expect(documentOf(gone.stdout)).toMatchObject({ error: { type: 'ScheduleNotFound' } });
});

test('a JSON document from stdin creates a schedule, and options win over its fields', async () => {
  const name = newName();
  const document = { projectId: 'p', prompt: 'x', jobIds: ['a', 'b', 'c'], maxOpen: 3, defaults: { settleTime: '5s' } };
  const options = ['--every', '6h', '--offset', '90m', '--overlap', 'allow-all', '--paused', '--max-open', '2'];
  options.push('--canary', '1', '--max-failures', '10%');
  const more = ['--catch-up-window', '10m', '--limit', '1', '--note', 'mine', '--json'];
  const created = await schedule(['create', name, '-', ...options, ...more], JSON.stringify(document, null, 2));
  expect(documentOf(created.stdout)).toMatchObject({
    times: { intervals: [{ everyMs: 21_600_000, offsetMs: 5_400_000 }] },
    followUps: 3,
    projectIds: ['p'],
    overlap: 'allow-all',
    catchUpWindowMs: 600_000,
    remainingFirings: 1,
    note: 'mine',
    paused: true,
  });
  const { action } = await client.schedule.getHandle(name).describe();
  expect(action.args).toEqual([{ ...document, maxOpen: 2, canary: 1, maxFailures: '10%' }]);
  expect((await schedule(['describe', name])).stdout).toContain('fires     every 6 h, offset 1 h 30 min');
});

describe('bad input ends with exit code 2, and nothing is created', () => {
  test('a document with a typo', async () => {
    const name = newName();
    const path = await file('{\n  "items": [],\n}\n');
    const { exitCode, stderr } = await schedule(['create', name, path, '--every', '1h']);
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(/^error: Usage: schedule: \S+: not JSON: /);
  });

  test.each(['5', 'null'])('a document that is %s', async (text) => {
    const { exitCode, stderr } = await schedule(['create', newName(), '-', '--every', '1h'], text);
    expect(exitCode).toBe(2);
    expect(stderr).toContain('1 of 1 line invalid');
  });

  test('a list of jobs that would need too many parts', async () => {
    const document = {
      projectId: 'p',
      prompt: 'x'.repeat(100_000),
      jobIds: Array.from({ length: 9_000 }, (_, i) => `j${i}`),
    };
    const { exitCode, stderr } = await schedule(['create', newName(), '-', '--every', '1h'], JSON.stringify(document));
    expect(exitCode).toBe(2);
    expect(stderr).toContain('input.jobIds: the batch is too long');
  });

  test('a bad line, with its number', async () => {
    const name = newName();
    const path = await file(`${line('job-1')}\n${line('job/2')}\nnot JSON\n${line('job-1')}\n`);
    const { exitCode, stderr } = await schedule(['create', name, path, '--every', '1h']);
    expect(exitCode).toBe(2);
    expect(stderr).toContain('3 of 4 lines');
    expect(stderr).toMatch(/line 2: jobId: .*job\/2/);
    expect(stderr).toMatch(/line 3: not JSON/);
    expect(stderr).toMatch(/line 4: same project, job and prompt as line 1/);
    await expect(client.schedule.getHandle(name).describe()).rejects.toThrow(/not found/);
  });

  test('bad options, with their names', async () => {
    const bad: [args: string[], message: RegExp][] = [
      [['--cron', '61 2 * * *'], /cron: minute is not in range/i],
      [
        ['--cron', '0 2 * *', '--time-zone', 'Europe/Nowhere'],
        /cron: must be minute, hour.*timeZone: .*Europe\/Nowhere/,
      ],
      [['--overlap', 'never'], /overlap: .*never/],
      [[], /cron: cron or every is required/],
      [['--every', '1h', '--foo'], /unknown option '--foo'/],
    ];
    const runs = bad.map(([args]) => schedule(['create', newName(), '-', ...args], lines));
    for (const [index, { exitCode, stdout, stderr }] of (await Promise.all(runs)).entries()) {
      expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' });
      expect(stderr).toMatch(bad[index]?.[1] ?? /never/);
    }
  });

  test('a bad name, a used name, a missing file, and a file that is too large', async () => {
    const name = newName();
    expect((await schedule(['create', name, '-', '--every', '1h', '--paused'], lines)).exitCode).toBe(0);
    const large = Array.from({ length: 30 }, (_, index) => line(`job-${index}`, { prompt: 'x'.repeat(9_000) }));
    const runs = await Promise.all([
      schedule(['create', 'a/b', '-', '--every', '1h'], lines),
      schedule(['create', name, '-', '--every', '1h'], lines),
      schedule(['create', newName(), join(folder, 'nowhere.jsonl'), '--every', '1h']),
      schedule(['create', newName(), '-', '--every', '1h'], large.join('\n')),
    ]);
    expect(runs.map(({ exitCode }) => exitCode)).toEqual([2, 2, 2, 2]);
    const [badName, taken, missing, tooLarge] = runs.map(({ stderr }) => stderr);
    expect(badName).toMatch(/name: must be 1 to 128/);
    expect(taken).toContain(`schedule ${name} already exists`);
    expect(missing).toContain('ENOENT');
    expect(tooLarge).toMatch(/input: must be at most 262144 bytes of JSON in a schedule \(it has \d+\)/);
  });

  test('an order for an unknown schedule', async () => {
    expect(await schedule(['trigger', newName()])).toMatchObject({ exitCode: 2 });
  });
});

test('an unreachable server leads to exit code 5', async () => {
  const { exitCode } = await runCli(['schedule', 'list'], { env: { TEMPORAL_ADDRESS: '127.0.0.1:1' } });
  expect(exitCode).toBe(5);
});
