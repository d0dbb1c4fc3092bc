import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { type CreateScheduleInput, FollowUpClient, type Schedules } from '../../src/client/index.js';
import { batchIdSchema, batchItemKey, keySchema } from '../../src/contract/index.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { eventually } from '../support/eventually.js';

let client: Client;
let connection: Connection;
/** No worker polls its task queue, so a batch runs until the test ends it. */
let schedules: Schedules;
const created: string[] = [];
beforeAll(async () => {
  connection = await Connection.connect({ address: inject('temporalAddress') });
  await ensureSearchAttributes(connection, 'default');
  client = new Client({ connection });
  ({ schedules } = new FollowUpClient({ client, taskQueue: `nobody-${randomUUID()}` }));
});
afterAll(async () => {
  await Promise.all(created.map((name) => schedules.delete(name).catch(() => undefined)));
  await connection.close();
});

const newName = (what: string) => `${what}-${randomUUID().slice(0, 8)}`;
const input = { projectId: 'schedules', prompt: 'Update the dependencies.', jobIds: ['job-1', 'job-2'] };
const HOUR_MS = 3_600_000;

/** Creates a schedule that does not fire by itself, and gives its name. */
async function create(what: string, options: Partial<CreateScheduleInput> = {}): Promise<string> {
  const name = newName(what);
  created.push(name);
  await schedules.create({ name, ...(options.cron === undefined && { every: '365d' }), input, ...options });
  return name;
}

const firingIds = async (name: string) => (await schedules.describe(name)).recentFirings.map(({ batchId }) => batchId);

describe('a client without a server', () => {
  const nowhere = Connection.lazy({ address: '127.0.0.1:1', interceptors: [] });
  afterAll(() => nowhere.close());
  const { schedules: unreachable } = new FollowUpClient({ client: new Client({ connection: nowhere }) });
  const long = (length: number) => 'x'.repeat(length);

  test.each<[change: Record<string, unknown>, ...fields: string[]]>([
    [{ cron: undefined }, 'cron'],
    [{ every: '1h' }, 'every'],
    [{ cron: '0 2 * *' }, 'cron'],
    [{ cron: 'TZ=Europe/Berlin 0 2 * * *' }, 'cron'],
    [{ cron: '0 2 * * * # x' }, 'cron'],
    [{ timeZone: 'Europe/Nowhere' }, 'timeZone'],
    [{ cron: undefined, every: '1h', timeZone: 'UTC' }, 'timeZone'],
    [{ cron: undefined, every: '500ms' }, 'every'],
    [{ cron: undefined, every: '1500ms' }, 'every'],
    [{ cron: undefined, every: '1h', offset: '1h' }, 'offset'],
    [{ offset: '1m' }, 'offset'],
    [{ name: 'a/b' }, 'name'],
    [{ name: long(100) }, 'name'],
    [{ overlap: 'terminate-other' }, 'overlap'],
    [{ catchUpWindow: '9s' }, 'catchUpWindow'],
    [{ limit: 0, note: '' }, 'limit', 'note'],
    [{ input: undefined }, 'input'],
    [{ input: { ...input, open: true } }, 'input.open'],
    [{ input: { items: [{ projectId: 'p', jobId: 'j' }] } }, 'input.items.0.prompt'],
    [{ input: { ...input, maxOpne: 1 } }, 'input.maxOpne'],
    [{ input: { ...input, projectId: long(110), jobIds: ['j', long(110)] } }, 'input.jobIds.1.workflowId'],
    [{ cronn: 'x' }, 'cronn'],
    [{ name: '', cron: 'x', timeZone: 'X', input: {} }, 'name', 'cron', 'timeZone', 'input.items'],
  ])('refuses %j before anything is sent', async (change, ...fields) => {
    const schedule = { name: 'nightly', cron: '0 2 * * *', input, ...change };
    const issues = fields.map((field) => ({ field }));
    await expect(unreachable.create(schedule)).rejects.toMatchObject({ name: 'InvalidInputError', issues });
  });
});

test.each(['MON-SUN', '1-7', 'mon-7', '1-7,3', '3,1/1', 'SAT-SUN', 'FRI-Sunday/2', '1-7/1'])(
  'a cron with %s as its days of the week is refused, because Temporal would refuse it or leave out the Sunday',
  async (days) => {
    const message = expect.stringMatching(/^day of week: .* SAT,SUN \(given "0 2 /);
    await expect(create('into-sunday', { cron: `0 2 1-7 * ${days}` })).rejects.toMatchObject({
      issues: [{ field: 'cron', message }],
    });
  },
);

test.each([
  ['*', '0123456'],
  ['0-7', '0123456'],
  ['SUN-SAT', '0123456'],
  ['5-7', '056'],
  ['1-6,7', '0123456'],
  ['SAT,SUN', '06'],
  ['1-7/2', '0135'],
  ['7', '0'],
])('a cron with %s as its days of the week fires on the days %s', async (cronDays, days) => {
  const { nextFirings } = await schedules.describe(await create('weekdays', { cron: `0 2 * * ${cronDays}` }));
  expect([...new Set(nextFirings.map((at) => new Date(at).getUTCDay()))].sort().join('')).toBe(days);
});

test.each([
  ['cron', { cron: '61 2 * * *' }, /minute.*61 2/i],
  ['timeZone', { cron: '0 4 * * *', timeZone: 'Us/Pacific' }, /time zone.*given "Us\/Pacific"/i],
])(
  'a schedule whose %s only the server can refuse is not created, and the error names that field',
  async (field, options, message) => {
    const issues = [{ field, message: expect.stringMatching(message) }];
    await expect(create('refused', options)).rejects.toMatchObject({ issues });
    await expect(schedules.describe(created.at(-1) ?? '')).rejects.toMatchObject({ type: 'ScheduleNotFound' });
  },
);

test('a schedule has the documented defaults, and fires in its time zone, whose name may be in any case', async () => {
  const name = await create('berlin', { cron: '30 4 * * MON-FRI', timeZone: 'europe/berlin' });
  const { nextFirings, ...description } = await schedules.describe(name);
  expect(description).toMatchObject({
    ...{ name, times: { cron: '30 4 * * MON-FRI', timeZone: 'Europe/Berlin', intervals: [] }, overlap: 'skip' },
    ...{ catchUpWindowMs: HOUR_MS, paused: false, followUps: 2, projectIds: ['schedules'] },
    ...{ recentFirings: [], runningBatchIds: [], counts: { fired: 0, skipped: 0, missed: 0 } },
  });
  expect(description.remainingFirings).toBeUndefined();
  const format = { timeZone: 'Europe/Berlin', weekday: 'short', hour: '2-digit', minute: '2-digit' } as const;
  const local = nextFirings.map((next) => new Date(next).toLocaleString('en-GB', format));
  expect(local).toEqual(Array(10).fill(expect.stringMatching(/^(Mon|Tue|Wed|Thu|Fri)\b.*04:30$/)));
  await expect(schedules.create({ name, every: '1h', input })).rejects.toMatchObject({ type: 'ScheduleExists' });
  expect((await schedules.describe(name)).times.cron).toBe('30 4 * * MON-FRI');
  const never = await create('never', { cron: '0 0 30 2 *' });
  expect(await schedules.describe(never)).toMatchObject({ nextFirings: [], times: { timeZone: 'UTC' } });
});

test('every option is stored in Temporal; a pause shows its reason, and a resume shows the old note again', async () => {
  const batch = { ...input, maxOpen: 7, defaults: { settleTime: '5s' } };
  const times = { every: '6h', offset: '90m', catchUpWindow: '10m' };
  const more = { overlap: 'buffer-one', limit: 3, note: 'mine', paused: true } as const;
  const name = await create('options', { ...times, ...more, input: batch });
  expect(await schedules.describe(name)).toMatchObject({
    times: { intervals: [{ everyMs: 6 * HOUR_MS, offsetMs: 1.5 * HOUR_MS }] },
    ...{ overlap: 'buffer-one', catchUpWindowMs: 600_000, remainingFirings: 3, note: 'mine', paused: true },
  });
  const { action } = await client.schedule.getHandle(name).describe();
  expect(action.args).toEqual([batch]);
  await schedules.resume(name);
  expect(await schedules.describe(name)).toMatchObject({ paused: false, note: 'mine' });
  await schedules.pause(name, 'release freeze');
  expect(await schedules.describe(name)).toMatchObject({ paused: true, note: 'release freeze' });
});

test('schedules are listed; foreign schedules are neither listed nor changed, and missing ones are reported', async () => {
  const name = await create('listed', { cron: '@weekly' });
  const scheduleId = newName('foreign');
  const other = await client.schedule.create({
    ...{ scheduleId, spec: { intervals: [{ every: '365d' }] } },
    action: { type: 'startWorkflow', workflowType: 'somethingElse', taskQueue: 'nobody', args: [] },
  });
  const listed: string[] = [];
  await eventually('it is listed', async () => {
    for await (const schedule of schedules.list()) listed.push(schedule.name);
    return listed.includes(name);
  });
  expect(listed).not.toContain(scheduleId);
  for (const order of ['describe', 'pause', 'resume', 'trigger', 'delete'] as const) {
    await expect(schedules[order](scheduleId)).rejects.toMatchObject({ type: 'ForeignSchedule', id: scheduleId });
    await expect(schedules[order]('nowhere')).rejects.toMatchObject({ type: 'ScheduleNotFound' });
  }
  expect((await other.describe()).state.paused).toBe(false);
  await other.delete();
});

test('each firing is its own batch, and even the longest name gives valid ids and keys', async () => {
  const name = await create('n'.repeat(81), { every: '1s', overlap: 'allow-all' });
  expect(name).toHaveLength(90);
  await eventually('two firings', async () => (await firingIds(name)).length >= 2);
  await schedules.pause(name);
  const ids = await firingIds(name);
  expect(new Set(ids).size).toBe(ids.length);
  for (const batchId of ids) {
    expect(batchId).toMatch(new RegExp(`^${name}-\\d{4}-\\d\\d-\\d\\dT[\\d:]{8}Z$`));
    expect(batchIdSchema.safeParse(batchId).success).toBe(true);
    expect(keySchema.safeParse(batchItemKey(batchId, 999_999)).success).toBe(true);
  }
});

test('a trigger obeys the overlap policy even of a paused schedule; a deleted schedule leaves its batch running', async () => {
  const name = await create('skip', { paused: true });
  await schedules.trigger(name);
  await eventually('one has fired', async () => (await schedules.describe(name)).runningBatchIds.length === 1);
  await schedules.trigger(name);
  const counts = async () => (await schedules.describe(name)).counts;
  await expect.poll(counts).toMatchObject({ fired: 1, skipped: 1 });
  const [first = ''] = await firingIds(name);
  await client.workflow.getHandle(`follow-up-batch/${first}`).terminate('its time is over');
  await eventually('nothing runs', async () => (await schedules.describe(name)).runningBatchIds.length === 0);
  // Temporal may take two that come at once for one.
  await Promise.all([schedules.trigger(name), schedules.trigger(name)]);
  const second = await eventually(
    'it has fired again',
    async () => (await schedules.describe(name)).runningBatchIds[0],
  );
  await schedules.delete(name);
  await expect(schedules.delete(name)).rejects.toMatchObject({ type: 'ScheduleNotFound' });
  const { status } = await client.workflow.getHandle(`follow-up-batch/${second}`).describe();
  expect(status.name).toBe('RUNNING');
  await schedules.create({ name, every: '365d', input });
});
