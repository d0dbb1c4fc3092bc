import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { eventually } from '../support/eventually.js';
import { askCli, runCli } from './run-cli.js';

let client: Client;
let connection: Connection;
let env: Record<string, string>;
const newName = () => `cli-${randomUUID().slice(0, 8)}`;
beforeAll(async () => {
  const address = inject('temporalAddress');
  connection = await Connection.connect({ address });
  await ensureSearchAttributes(connection, 'default');
  client = new Client({ connection });
  // No worker polls this queue, so a batch runs until the test ends it.
  env = { TEMPORAL_ADDRESS: address, FOLLOW_UP_TASK_QUEUE: `nobody-${randomUUID()}` };
});
afterAll(() => connection.close());

const schedule = (args: string[], stdin = '') => runCli(['schedule', ...args], { env, stdin });
const ask = (args: string[], stdin = '') => askCli(['schedule', ...args], { env, stdin });
const line = (jobId: string, prompt = 'Go.') => `${JSON.stringify({ projectId: 'cli-schedules', jobId, prompt })}\n`;

test('a schedule is created, shown, paused, triggered, resumed, listed and deleted', async () => {
  const name = newName();
  const times = ['--cron', '30 4 * * 1-5', '--time-zone', 'Europe/Berlin'];
  const created = await schedule(['create', name, '-', ...times], `${line('job-1')}\n${line('job-2')}`);
  expect(created.exitCode, created.stderr).toBe(0);
  const text = created.stdout.replaceAll(/\d{4}-\d\d-\d\d/g, 'DAY').replaceAll(name, 'NAME');
  expect(text.replace(/nobody\S+/, 'QUEUE')).toMatchInlineSnapshot(`
    "created
    schedule  NAME
    fires     cron 30 4 * * 1-5, Europe/Berlin
    batch     2 follow-ups of cli-schedules, task queue QUEUE
    overlap   skip
    catch-up  1 h
    so far    0 fired, 0 skipped by the overlap policy, 0 missed
    next      DAY 04:30:00 Europe/Berlin
              DAY 04:30:00 Europe/Berlin
              DAY 04:30:00 Europe/Berlin
              DAY 04:30:00 Europe/Berlin
              DAY 04:30:00 Europe/Berlin
    "
  `);
  const used = await schedule(['create', name, '-', '--every', '1h'], line('job-1'));
  expect(used).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(`schedule ${name} already exists`) });

  expect((await ask(['pause', name, '--note', 'release freeze'])).document).toEqual({ name, paused: true });
  expect((await schedule(['describe', name])).stdout).toMatch(/^schedule {2}\S+, paused\nnote {6}release freeze$/m);
  expect((await schedule(['trigger', name])).stdout).toContain(`${name} fires`);
  const batchId = await eventually('it has fired', async () => {
    const { document } = await ask(['describe', name]);
    return document.runningBatchIds[0] as string | undefined;
  });
  expect((await schedule(['resume', name])).stdout).toBe(`${name} is resumed\n`);
  const shown = await schedule(['describe', name]);
  expect(shown.stdout).toContain('so far    1 fired, 0 skipped by the overlap policy, 0 missed\n');
  expect(shown.stdout).toContain(`latest    ${batchId}\nrunning   ${batchId}\n`);
  const row = new RegExp(`^${name} .* 04:30:00 Europe/Berlin .*cron`, 'm');
  await expect.poll(async () => (await schedule(['list'])).stdout).toMatch(row);
  const listed = (await ask(['list'])).documents.find((each) => each.name === name);
  expect(listed).toMatchObject({ paused: false, counts: { fired: 1, skipped: 0 }, recentFirings: [{ batchId }] });
  await client.workflow.getHandle(`follow-up-batch/${batchId}`).terminate();

  expect((await schedule(['delete', name])).stdout).toBe(`${name} is deleted\n`);
  expect(await schedule(['describe', name])).toMatchObject({ exitCode: 2, stderr: expect.stringMatching(/NotFound/) });
});

test('a JSON document from stdin creates a schedule, and options win over its fields', async () => {
  const name = newName();
  const batch = { projectId: 'p', prompt: 'x', jobIds: ['a', 'b', 'c'], maxOpen: 3, defaults: { settleTime: '5s' } };
  const options = '--every 6h --offset 90m --overlap allow-all --paused --catch-up-window 10m --limit 1 --note mine';
  const limits = '--max-open 2 --canary 1 --max-failures 10%';
  const args = ['create', name, '-', ...options.split(' '), ...limits.split(' ')];
  expect((await ask(args, JSON.stringify(batch, null, 2))).document).toMatchObject({
    times: { intervals: [{ everyMs: 21_600_000, offsetMs: 5_400_000 }] },
    ...{ followUps: 3, projectIds: ['p'], overlap: 'allow-all', catchUpWindowMs: 600_000, remainingFirings: 1 },
    ...{ note: 'mine', paused: true },
  });
  const { action } = await client.schedule.getHandle(name).describe();
  expect(action.args).toEqual([{ ...batch, maxOpen: 2, canary: 1, maxFailures: '10%' }]);
  expect((await schedule(['describe', name])).stdout).toContain('fires     every 6 h, offset 1 h 30 min');
  await client.schedule.getHandle(name).delete();
});

test('a schedule for a day that no year has says that it never fires', async () => {
  const created = await schedule(['create', newName(), '-', '--cron', '0 2 30 2 *'], line('job-1'));
  expect(created.stdout).toMatch(/^next {6}never$/m);
});

test.each<[what: string, prompts: string[], cron: string, said: RegExp]>([
  ['a cron that only the server can refuse', ['x'], '61 2 * * *', /cron: minute is not in range/i],
  ['a batch of more than 256 KiB', Array<string>(30).fill('x'.repeat(9_000)), '@daily', /at most 262144 bytes of JSON/],
])('%s ends with exit code 2, and nothing is created', async (_what, prompts, cron, said) => {
  const name = newName();
  const stdin = prompts.map((prompt, index) => line(`job-${index}`, prompt)).join('');
  const refused = await schedule(['create', name, '-', '--cron', cron], stdin);
  expect(refused).toMatchObject({ exitCode: 2, stdout: '', stderr: expect.stringMatching(said) });
  expect(await schedule(['describe', name])).toMatchObject({ exitCode: 2 });
});
