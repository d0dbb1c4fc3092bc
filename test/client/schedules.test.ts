import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { Client, Connection } from '@temporalio/client';
import { msToTs, tsToMs } from '@temporalio/common/lib/time.js';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import {
  type CreateScheduleInput,
  FollowUpClient,
  InvalidInputError,
  type Schedules,
  TemporalUnreachableError,
} from '../../src/client/index.js';
import { batchItemKey, batchIdSchema, keySchema } from '../../src/contract/index.js';
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
const end = (batchId: string) => client.workflow.getHandle(`follow-up-batch/${batchId}`).terminate('its time is over');

describe('invalid input', () => {
  const good = { name: 'nightly', cron: '0 2 * * *', input };
  const bad: [what: string, change: Record<string, unknown>, fields: string[]][] = [
    ['neither cron nor interval', { cron: undefined }, ['cron']],
    ['both', { every: '1h' }, ['every']],
    ['a cron of four fields', { cron: '0 2 * *' }, ['cron']],
    ['a cron with a zone in it', { cron: 'TZ=Europe/Berlin 0 2 * * *' }, ['cron']],
    ['a cron that ends in a comment', { cron: '0 2 * * * # x' }, ['cron']],
    ['an unknown zone', { timeZone: 'Europe/Nowhere' }, ['timeZone']],
    ['a zone for an interval', { cron: undefined, every: '1h', timeZone: 'UTC' }, ['timeZone']],
    ['an interval of half a second', { cron: undefined, every: '500ms' }, ['every']],
    ['an interval with half a second', { cron: undefined, every: '1500ms' }, ['every']],
    ['an offset as long as its interval', { cron: undefined, every: '1h', offset: '1h' }, ['offset']],
    ['an offset without an interval', { offset: '1m' }, ['offset']],
    ['a name with a slash', { name: 'a/b' }, ['name']],
    ['a name too long for a batch id', { name: 'x'.repeat(100) }, ['name']],
    ['an unknown overlap policy', { overlap: 'terminate-other' }, ['overlap']],
    ['a catch-up window below the server’s least', { catchUpWindow: '9s' }, ['catchUpWindow']],
    ['no firing at all', { limit: 0 }, ['limit']],
    ['an empty note', { note: '' }, ['note']],
    ['no batch', { input: undefined }, ['input']],
    ['a batch that stays open', { input: { ...input, open: true } }, ['input.open']],
    ['a bad follow-up', { input: { items: [{ projectId: 'p', jobId: 'j' }] } }, ['input.items.0.prompt']],
    ['an unknown field of the batch', { input: { ...input, maxOpne: 1 } }, ['input.maxOpne']],
    [
      'ids too long for a workflow id of a firing',
      { input: { ...input, projectId: 'p'.repeat(110), jobIds: ['j', 'j'.repeat(110)] } },
      ['input.jobIds.1.workflowId'],
    ],
    ['an unknown field', { cronn: 'x' }, ['cronn']],
    [
      'all of it at once',
      { name: '', cron: 'x', timeZone: 'Nowhere', catchUpWindow: '2y', input: {} },
      ['name', 'cron', 'timeZone', 'catchUpWindow', 'input.items'],
    ],
  ];
  test.each(bad)('%s is refused before anything is sent', async (_what, change, fields) => {
    const nowhere = Connection.lazy({ address: '127.0.0.1:1', interceptors: [] });
    const { schedules: unreachable } = new FollowUpClient({ client: new Client({ connection: nowhere }) });
    const error = await unreachable.create({ ...good, ...change }).catch((thrown: unknown) => thrown);
    await nowhere.close();
    expect(error).toBeInstanceOf(InvalidInputError);
    expect((error as InvalidInputError).issues.map(({ field }) => field)).toEqual(fields);
  });

  test('a batch over 256 KiB names its size and the rule', async () => {
    const prompt = 'x'.repeat(9_000);
    const items = Array.from({ length: 30 }, (_, index) => ({ projectId: 'p', jobId: `job-${index}`, prompt }));
    const error = schedules.create({ name: 'large', every: '1h', input: { items } });
    await expect(error).rejects.toThrow(/input: must be at most 262144 bytes of JSON in a schedule \(it has 27\d{4}\)/);
  });

  test.each([
    ['cron', { cron: '61 2 * * *' }, /minute.*61 2/i],
    ['timeZone', { cron: '0 4 * * *', timeZone: 'Us/Pacific' }, /time zone.*given "Us\/Pacific"/i],
  ])('what only the server can refuse names %s, and nothing is created', async (field, options, message) => {
    const error = create('refused', options);
    await expect(error).rejects.toMatchObject({ issues: [{ field, message: expect.stringMatching(message) }] });
    await expect(schedules.describe(created.at(-1) ?? '')).rejects.toMatchObject({ type: 'ScheduleNotFound' });
  });
});

describe('create and describe', () => {
  test('a schedule has the documented defaults, and fires in the time of its zone, whatever its case', async () => {
    const name = await create('berlin', { cron: '30 4 * * MON-FRI', timeZone: 'europe/berlin' });
    const description = await schedules.describe(name);
    expect(description).toMatchObject({
      name,
      times: { cron: '30 4 * * MON-FRI', timeZone: 'Europe/Berlin', intervals: [] },
      overlap: 'skip',
      catchUpWindowMs: HOUR_MS,
      paused: false,
      followUps: 2,
      projectIds: ['schedules'],
      recentFirings: [],
      runningBatchIds: [],
      counts: { fired: 0, skipped: 0, missed: 0 },
    });
    expect(description.remainingFirings).toBeUndefined();
    expect(description.nextFirings).toHaveLength(10);
    for (const next of description.nextFirings) {
      const local = new Date(next).toLocaleString('en-GB', {
        timeZone: 'Europe/Berlin',
        weekday: 'long',
        hour: '2-digit',
        minute: '2-digit',
      });
      expect(local).toMatch(/^(Mon|Tues|Wednes|Thurs|Fri)day.*04:30$/);
    }
  });

  test('every option is stored in Temporal, and the batch as it was given', async () => {
    const batch = { ...input, maxOpen: 7, defaults: { settleTime: '5s' } };
    const name = await create('options', {
      every: '6h',
      offset: '90m',
      overlap: 'buffer-one',
      catchUpWindow: '10m',
      limit: 3,
      note: 'release train',
      paused: true,
      input: batch,
    });
    expect(await schedules.describe(name)).toMatchObject({
      times: { intervals: [{ everyMs: 6 * HOUR_MS, offsetMs: 1.5 * HOUR_MS }] },
      overlap: 'buffer-one',
      catchUpWindowMs: 600_000,
      remainingFirings: 3,
      note: 'release train',
      paused: true,
    });
    const { action } = await client.schedule.getHandle(name).describe();
    expect(action.args).toEqual([batch]);
  });

  test('@daily is accepted, and a schedule that never fires has no next firing', async () => {
    const daily = await create('daily', { cron: '@daily' });
    expect((await schedules.describe(daily)).times).toMatchObject({ cron: '@daily', timeZone: 'UTC' });
    const never = await create('never', { cron: '0 0 30 2 *' });
    expect((await schedules.describe(never)).nextFirings).toEqual([]);
  });

  test('a used name is refused, and the existing schedule stays', async () => {
    const name = await create('taken', { cron: '@daily' });
    await expect(schedules.create({ name, every: '1h', input })).rejects.toMatchObject({ type: 'ScheduleExists' });
    expect((await schedules.describe(name)).times.cron).toBe('@daily');
  });

  const orders = ['describe', 'pause', 'resume', 'trigger', 'delete'] as const;

  test('schedules are listed, and foreign schedules are neither listed nor changed', async () => {
    const name = await create('listed', { cron: '@weekly' });
    const foreign = newName('foreign');
    const other = await client.schedule.create({
      scheduleId: foreign,
      spec: { intervals: [{ every: '365d' }] },
      action: { type: 'startWorkflow', workflowType: 'somethingElse', taskQueue: 'nobody', args: [] },
    });
    const list = async () => {
      const names: string[] = [];
      for await (const schedule of schedules.list()) names.push(schedule.name);
      return names;
    };
    await eventually('it is listed', async () => (await list()).includes(name));
    expect(await list()).not.toContain(foreign);
    for (const order of orders) {
      await expect(schedules[order](foreign)).rejects.toMatchObject({ type: 'ForeignSchedule', id: foreign });
    }
    expect((await other.describe()).state.paused).toBe(false);
    await other.delete();
  });

  test('every order reports a missing schedule', async () => {
    for (const order of orders) {
      await expect(schedules[order]('nowhere')).rejects.toMatchObject({ type: 'ScheduleNotFound' });
    }
  });

  test('an unreachable server is reported', async () => {
    const nowhere = Connection.lazy({ address: '127.0.0.1:1', interceptors: [] });
    const { schedules: unreachable } = new FollowUpClient({ client: new Client({ connection: nowhere }) });
    await expect(unreachable.create({ name: 'x', every: '1h', input })).rejects.toThrow(TemporalUnreachableError);
    await expect(unreachable.list().next()).rejects.toThrow(TemporalUnreachableError);
    await nowhere.close();
  });
});

test('each firing is its own batch, and even the longest name gives valid ids and keys', async () => {
  const name = await create('n'.repeat(81), { every: '1s', overlap: 'allow-all' });
  expect(name).toHaveLength(90);
  const ids = await eventually('three firings', async () => {
    const ids = await firingIds(name);
    return ids.length >= 3 ? ids : undefined;
  });
  await schedules.pause(name);
  expect(new Set(ids).size).toBe(ids.length);
  for (const batchId of ids) {
    expect(batchId).toMatch(new RegExp(`^${name}-\\d{4}-\\d\\d-\\d\\dT[\\d:]{8}Z$`));
    expect(batchIdSchema.safeParse(batchId).success).toBe(true);
    expect(keySchema.safeParse(batchItemKey(batchId, 999_999)).success).toBe(true);
  }
});

describe('daylight saving', () => {
  const timesOf = async (options: { cron: string; timeZone: string }, from: string, to: string) => {
    const name = await create('clock', { paused: true, ...options });
    const { startTime } = await connection.workflowService.listScheduleMatchingTimes({
      namespace: 'default',
      scheduleId: name,
      startTime: msToTs(Date.parse(from)),
      endTime: msToTs(Date.parse(to)),
    });
    return startTime.map((time) => new Date(tsToMs(time)).toISOString());
  };

  test('a time that the clock repeats fires once in Berlin, and twice in New York', async () => {
    // 02:30 was at 00:30Z and at 01:30Z.
    const berlin = { cron: '30 2 * * *', timeZone: 'Europe/Berlin' };
    expect(await timesOf(berlin, '2025-10-25T12:00:00Z', '2025-10-26T12:00:00Z')).toHaveLength(1);
    // 01:30 was at 05:30Z and at 06:30Z.
    const newYork = { cron: '30 1 * * *', timeZone: 'America/New_York' };
    expect(await timesOf(newYork, '2025-11-01T12:00:00Z', '2025-11-02T12:00:00Z')).toHaveLength(2);
  });

  test('a time that the clock skips does not fire on that day, and in some zones that is midnight', async () => {
    const berlin = { cron: '30 2 * * *', timeZone: 'Europe/Berlin' };
    expect(await timesOf(berlin, '2025-03-29T12:00:00Z', '2025-03-30T12:00:00Z')).toEqual([]);
    const santiago = { cron: '@daily', timeZone: 'America/Santiago' };
    expect(await timesOf(santiago, '2025-09-06T12:00:00Z', '2025-09-08T12:00:00Z')).toEqual([
      '2025-09-08T03:00:00.000Z',
    ]);
  });

  test('the guide says so', async () => {
    const text = (await readFile('docs/how-to/batches.md', 'utf8')).replaceAll(/\s+/g, ' ');
    expect(text).toContain('fires once in some zones, such as Europe/Berlin, and twice in others');
    expect(text).toContain('Clocks change between 00:00 and 03:00 in most zones');
  });
});

describe('pause, resume, trigger and delete', () => {
  test('a pause shows its reason, and a resume the own note again', async () => {
    const name = await create('pause', { note: 'mine' });
    await schedules.pause(name);
    expect(await schedules.describe(name)).toMatchObject({ paused: true, note: 'mine' });
    await schedules.pause(name, 'release freeze');
    expect(await schedules.describe(name)).toMatchObject({ paused: true, note: 'release freeze' });
    await schedules.resume(name);
    expect(await schedules.describe(name)).toMatchObject({ paused: false, note: 'mine' });
  });

  test('a paused schedule fires when it is triggered, and a deleted one leaves its batch running', async () => {
    const name = await create('delete', { paused: true });
    await schedules.trigger(name);
    const [batchId] = await eventually('it has fired', async () => {
      const { runningBatchIds } = await schedules.describe(name);
      return runningBatchIds.length > 0 ? runningBatchIds : undefined;
    });
    await schedules.delete(name);
    await expect(schedules.delete(name)).rejects.toMatchObject({ type: 'ScheduleNotFound' });
    const { status } = await client.workflow.getHandle(`follow-up-batch/${batchId}`).describe();
    expect(status.name).toBe('RUNNING');
    await schedules.create({ name, every: '365d', input });
  });

  test('a trigger obeys the overlap policy of the schedule, and two at once are both accepted', async () => {
    const name = await create('skip');
    await schedules.trigger(name);
    await eventually('one has fired', async () => (await schedules.describe(name)).runningBatchIds.length === 1);
    await schedules.trigger(name);
    await eventually('one has fired, one is skipped', async () => {
      const { counts } = await schedules.describe(name);
      return counts.fired === 1 && counts.skipped === 1;
    });
    const [first = ''] = await firingIds(name);
    await end(first);
    await eventually('nothing runs', async () => (await schedules.describe(name)).runningBatchIds.length === 0);
    // Temporal may take two that come at once for one.
    await Promise.all([schedules.trigger(name), schedules.trigger(name)]);
    await eventually('the next trigger fires', async () => (await firingIds(name)).length === 2);
  });
});
