import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { describeTimes, inZone } from '../../src/cli/schedule-text.js';
import type { ScheduleTimes } from '../../src/client/index.js';
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
  expect(created.stdout).toContain('overlap   skip: a firing is skipped while the previous one still runs');
  expect(created.stdout).toMatch(/next firings:\n( {2}\d{4}-\d\d-\d\d 04:30:00 Europe\/Berlin\n){5}has not fired yet/);

  const paused = await schedule(['pause', name, '--note', 'release freeze', '--json']);
  expect(documentOf(paused.stdout)).toMatchObject({ name, paused: true, pause: { note: 'release freeze' } });
  expect((await schedule(['describe', name])).stdout).toMatch(/^schedule {2}\S+, paused since .* \(release freeze\)$/m);
  const triggered = documentOf((await schedule(['trigger', name, '--json'])).stdout);
  expect(triggered).toMatchObject({ outcome: 'started', batchId: expect.stringMatching(`^${name}-\\d{4}-`) });
  const skipped = await schedule(['trigger', name]);
  expect(skipped).toMatchObject({ exitCode: 0 });
  expect(skipped.stdout).toContain('nothing was started');
  const resumed = await schedule(['resume', name]);
  expect(resumed.stdout).toMatch(new RegExp(`^${name} is resumed; next firing .* 04:30:00 Europe/Berlin$`, 'm'));

  await client.workflow.getHandle(String(triggered['workflowId'])).terminate();
  const listed = await eventually('it is listed', async () => {
    const { stdout } = await schedule(['list', '--json']);
    return stdout.split('\n').find((text) => text.includes(name));
  });
  expect(documentOf(listed)).toMatchObject({
    name,
    counts: { fired: 1, skipped: 1, missed: 0 },
    recentFirings: [{ batchId: triggered['batchId'], status: 'terminated' }],
  });
  const shown = await schedule(['describe', name]);
  expect(shown.stdout).toContain('so far    1 fired, 1 skipped by the overlap policy, 0 missed');
  expect(shown.stdout).toContain(`  ${String(triggered['batchId'])}  started`);

  expect((await schedule(['delete', name])).stdout).toBe(`${name} is deleted\n`);
  const gone = await schedule(['describe', name, '--json']);
  expect(gone.exitCode).toBe(2);
  expect(documentOf(gone.stdout)).toMatchObject({ error: { type: 'ScheduleNotFound' } });
});

test('a JSON document from stdin creates a schedule, and a backfill fires for past times', async () => {
  const name = newName();
  const document = JSON.stringify({ projectId: 'p', prompt: 'x', jobIds: ['a', 'b', 'c'] }, null, 2);
  const options = ['--every', '1h', '--overlap', 'allow-all', '--paused', '--max-open', '2', '--json'];
  const created = await schedule(['create', name, '-', ...options], document);
  expect(documentOf(created.stdout)).toMatchObject({
    followUps: 3,
    projectIds: ['p'],
    overlap: 'allow-all',
    paused: true,
  });
  const { action } = await client.schedule.getHandle(name).describe();
  expect(action.args).toEqual([{ projectId: 'p', prompt: 'x', jobIds: ['a', 'b', 'c'], maxOpen: 2 }]);

  const hour = Math.floor(Date.now() / 3_600_000) * 3_600_000;
  const range = ['--from', new Date(hour - 7_200_000).toISOString(), '--to', new Date(hour).toISOString()];
  const backfilled = await schedule(['backfill', name, ...range]);
  expect(backfilled.stdout).toContain('asked for 3 firings');
  expect(backfilled.stdout).toContain('overlap buffer-all: firings wait for the previous one to end');
  await eventually('the first has fired', async () => {
    const { info } = await client.schedule.getHandle(name).describe();
    return info.numActionsTaken === 1;
  });
  const again = await schedule(['backfill', name, ...range, '--json']);
  expect(documentOf(again.stdout)).toMatchObject({ alreadyFired: [new Date(hour - 7_200_000).toISOString()] });
});

describe('bad input ends with exit code 2, and nothing is created', () => {
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
      [[], /cron: either cron or every/],
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

  test('a backfill of too many firings, and an order for an unknown schedule', async () => {
    const name = newName();
    await schedule(['create', name, '-', '--every', '1m', '--paused'], lines);
    const range = ['--from', '2026-01-01T00:00:00Z', '--to', '2026-01-01T03:00:00Z'];
    const { exitCode, stderr } = await schedule(['backfill', name, ...range]);
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(/the range has 181 firings, and at most 100 are allowed; maxFirings, or --yes/);
    expect(await schedule(['trigger', newName()])).toMatchObject({ exitCode: 2 });
  });
});

test('an unreachable server leads to exit code 5', async () => {
  const { exitCode } = await runCli(['schedule', 'list'], { env: { TEMPORAL_ADDRESS: '127.0.0.1:1' } });
  expect(exitCode).toBe(5);
});

describe('the times of a schedule', () => {
  const second = [{ start: 0, end: 0, step: 1 }];
  const calendar: ScheduleTimes['calendars'][number] = {
    second,
    minute: second,
    hour: [{ start: 2, end: 2, step: 1 }],
    dayOfMonth: [{ start: 1, end: 31, step: 1 }],
    month: [{ start: 'JANUARY', end: 'DECEMBER', step: 1 }],
    year: [],
    dayOfWeek: [{ start: 'SUNDAY', end: 'SATURDAY', step: 1 }],
  };
  const text = (times: Partial<ScheduleTimes>) =>
    describeTimes({ calendars: [], intervals: [], timeZone: 'UTC', jitterMs: 0, ...times });

  test('are its cron expression or its interval, with their bounds', () => {
    expect(text({ calendars: [calendar], cron: '0 2 * * *', timeZone: 'Europe/Berlin' })).toBe(
      'cron 0 2 * * *, Europe/Berlin',
    );
    expect(text({ calendars: [calendar] })).toBe('a calendar set in Temporal, UTC');
    expect(text({ calendars: [calendar], cron: '@daily', jitterMs: 30_000, startAt: '2026-12-01T00:00:00.000Z' })).toBe(
      'cron @daily, UTC, up to 30 s late, not before 2026-12-01T00:00:00.000Z',
    );
    expect(text({ intervals: [{ everyMs: 21_600_000, offsetMs: 5_400_000 }] })).toBe('every 6 h, offset 1 h 30 min');
    expect(text({})).toBe('never');
  });

  test('are shown in the time of the zone, before and after a change of the clocks', () => {
    expect(inZone('2026-03-29T00:30:00.000Z', 'Europe/Berlin')).toBe('2026-03-29 01:30:00');
    expect(inZone('2026-03-29T01:30:00.000Z', 'Europe/Berlin')).toBe('2026-03-29 03:30:00');
    expect(inZone('2026-03-29T01:30:00.000Z', 'Nowhere/Land')).toBe('2026-03-29T01:30:00.000Z');
  });
});
