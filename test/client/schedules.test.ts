import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { Client, Connection } from '@temporalio/client';
import { msToTs, tsToMs } from '@temporalio/common/lib/time.js';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import {
  type CreateScheduleInput,
  FollowUpClient,
  ForeignScheduleError,
  InvalidInputError,
  ScheduleExistsError,
  type ScheduleHandle,
  ScheduleNotFoundError,
  TemporalUnreachableError,
} from '../../src/client/index.js';
import { batchItemKey, keySchema, parseFollowUpBatchWorkflowId, SearchAttribute } from '../../src/contract/index.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { eventually } from '../support/eventually.js';

let client: Client;
let connection: Connection;
/** No worker polls its task queue, so a batch runs until the test ends it. */
let followUps: FollowUpClient;
const created: ScheduleHandle[] = [];

beforeAll(async () => {
  connection = await Connection.connect({ address: inject('temporalAddress') });
  await ensureSearchAttributes(connection, 'default');
  client = new Client({ connection });
  followUps = new FollowUpClient({ client, taskQueue: `nobody-${randomUUID()}` });
});
afterAll(async () => {
  await Promise.all(created.map((schedule) => schedule.delete().catch(() => undefined)));
  await connection.close();
});

const newName = (what: string) => `${what}-${randomUUID().slice(0, 8)}`;
const input = { projectId: 'schedules', prompt: 'Update the dependencies.', jobIds: ['job-1', 'job-2'] };
const HOUR_MS = 3_600_000;

async function create(options: Partial<CreateScheduleInput> & { name: string }): Promise<ScheduleHandle> {
  const schedule = await followUps.schedules.create({
    ...(options.cron === undefined && { every: '365d' }),
    input,
    ...options,
  });
  created.push(schedule);
  return schedule;
}

const runningIds = async (schedule: ScheduleHandle) => (await schedule.describe()).runningBatchIds;
const firingIds = async (schedule: ScheduleHandle) =>
  (await schedule.describe()).recentFirings.map(({ batchId }) => batchId);
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
    ['an offset for a zone', { timeZone: '+01:00' }, ['timeZone']],
    ['a zone for an interval', { cron: undefined, every: '1h', timeZone: 'UTC' }, ['timeZone']],
    ['an interval of half a second', { cron: undefined, every: '500ms' }, ['every']],
    ['an interval with half a second', { cron: undefined, every: '1500ms' }, ['every']],
    ['an offset as long as its interval', { cron: undefined, every: '1h', offset: '1h' }, ['offset']],
    ['an offset without an interval', { offset: '1m' }, ['offset']],
    ['a name with a slash', { name: 'a/b' }, ['name']],
    ['a name with two dots', { name: 'a..b' }, ['name']],
    ['a name with a colon', { name: 'a:b' }, ['name']],
    ['a name too long for a batch id', { name: 'x'.repeat(100) }, ['name']],
    ['an unknown overlap policy', { overlap: 'terminate-other' }, ['overlap']],
    ['a catch-up window below the server’s least', { catchUpWindow: '9s' }, ['catchUpWindow']],
    ['a start without a zone', { startAt: '2030-01-01T00:00:00' }, ['startAt']],
    ['an end in the past', { endAt: '2020-01-01T00:00:00Z' }, ['endAt']],
    ['an end before the start', { startAt: '2100-01-01T00:00:00Z', endAt: '2099-01-01T00:00:00Z' }, ['endAt']],
    ['no firing at all', { limit: 0 }, ['limit']],
    ['an empty note', { note: '' }, ['note']],
    ['no batch', { input: undefined }, ['input']],
    ['a batch that stays open', { input: { ...input, open: true } }, ['input.open']],
    ['a bad follow-up', { input: { items: [{ projectId: 'p', jobId: 'j' }] } }, ['input.items.0.prompt']],
    [
      'ids too long for a workflow id of a firing',
      { input: { ...input, projectId: 'p'.repeat(110), jobIds: ['j', 'j'.repeat(110)] } },
      ['input.jobIds.1.workflowId'],
    ],
    ['an unknown field', { cronn: 'x' }, ['cronn']],
    ['all of it at once', { name: '', cron: 'x', jitter: '2d', input: {} }, ['name', 'cron', 'jitter', 'input.items']],
  ];
  test.each(bad)('%s is refused before anything is sent', async (_what, change, fields) => {
    const nowhere = Connection.lazy({ address: '127.0.0.1:1', interceptors: [] });
    const { schedules } = new FollowUpClient({ client: new Client({ connection: nowhere }) });
    const error = await schedules.create({ ...good, ...change }).catch((thrown: unknown) => thrown);
    await nowhere.close();
    expect(error).toBeInstanceOf(InvalidInputError);
    expect((error as InvalidInputError).issues.map(({ field }) => field)).toEqual(fields);
  });

  test('a batch over 256 KiB names its size and the rule', async () => {
    const items = Array.from({ length: 30 }, (_, index) => ({
      projectId: 'p',
      jobId: `job-${index}`,
      prompt: 'x'.repeat(9_000),
    }));
    const error = followUps.schedules.create({ name: 'large', every: '1h', input: { items } });
    await expect(error).rejects.toThrow(/input: must be at most 262144 bytes of JSON in a schedule \(it has 27\d{4}\)/);
  });

  test('an error that only the server finds names the field, and nothing is created', async () => {
    const name = newName('minute-61');
    const error = await create({ name, cron: '61 2 * * *' }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(InvalidInputError);
    expect(error).toMatchObject({ issues: [{ field: 'cron', message: expect.stringMatching(/minute.*61 2/i) }] });
    await expect(followUps.schedules.handle(name).describe()).rejects.toThrow(ScheduleNotFoundError);
  });
});

describe('the case of a time zone', () => {
  test.each([
    ['us/pacific', 'America/Los_Angeles'],
    ['US/Pacific', 'US/Pacific'],
    ['europe/berlin', 'Europe/Berlin'],
    ['Asia/Kolkata', 'Asia/Kolkata'],
    ['utc', 'UTC'],
  ])('%s is taken as %s', async (timeZone, taken) => {
    const schedule = await create({ name: newName('zone'), cron: '0 4 * * *', timeZone });
    expect((await schedule.describe()).times.timeZone).toBe(taken);
  });

  test('a zone that only the server does not know is an error of timeZone', async () => {
    const error = create({ name: newName('zone'), cron: '0 4 * * *', timeZone: 'Us/Pacific' });
    await expect(error).rejects.toMatchObject({
      issues: [{ field: 'timeZone', message: expect.stringMatching(/time zone.*given "Us\/Pacific"/i) }],
    });
  });
});

describe('create and describe', () => {
  test('a schedule has the documented defaults, and fires in the time of its zone', async () => {
    const name = newName('berlin');
    const schedule = await create({ name, cron: '30 4 * * MON-FRI', timeZone: 'europe/berlin' });
    const description = await schedule.describe();
    expect(description).toMatchObject({
      name,
      times: { cron: '30 4 * * MON-FRI', timeZone: 'Europe/Berlin', jitterMs: 0, intervals: [] },
      overlap: 'skip',
      catchUpWindowMs: HOUR_MS,
      paused: false,
      followUps: 2,
      projectIds: ['schedules'],
      recentFirings: [],
      runningBatchIds: [],
      counts: { fired: 0, skipped: 0, missed: 0 },
    });
    expect(description).not.toHaveProperty('remainingFirings');
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

  test('every option is stored in Temporal and shows in its UI', async () => {
    const name = newName('said');
    await create({
      name,
      every: '6h',
      offset: '90m',
      overlap: 'buffer-one',
      catchUpWindow: '10m',
      jitter: '30s',
      startAt: '2099-01-01T01:00:00+01:00',
      endAt: '2100-01-01T00:00:00Z',
      limit: 3,
      note: 'release train',
      paused: true,
    });
    expect(await followUps.schedules.handle(name).describe()).toMatchObject({
      times: {
        intervals: [{ everyMs: 6 * HOUR_MS, offsetMs: 1.5 * HOUR_MS }],
        jitterMs: 30_000,
        startAt: '2099-01-01T00:00:00.000Z',
        endAt: '2100-01-01T00:00:00.000Z',
      },
      overlap: 'buffer-one',
      catchUpWindowMs: 600_000,
      remainingFirings: 3,
      note: 'release train',
      paused: true,
    });
    const { memo, typedSearchAttributes, action } = await client.schedule.getHandle(name).describe();
    expect(memo).toEqual({ followUps: 2, projects: ['schedules'] });
    expect(typedSearchAttributes.get(SearchAttribute.projectId)).toBe('schedules');
    expect(action.staticSummary).toBe(`Schedule ${name}: 2 follow-ups (schedules)`);
  });

  test('@daily is accepted, and a schedule that never fires has no next firing', async () => {
    const daily = await create({ name: newName('daily'), cron: '@daily' });
    expect((await daily.describe()).times).toMatchObject({ cron: '@daily', timeZone: 'UTC' });
    const never = await create({ name: newName('never'), cron: '0 0 30 2 *' });
    expect((await never.describe()).nextFirings).toEqual([]);
  });

  test('a used name is refused, and the existing schedule stays', async () => {
    const name = newName('taken');
    await create({ name, cron: '@daily' });
    await expect(create({ name, every: '1h' })).rejects.toThrow(ScheduleExistsError);
    expect((await followUps.schedules.handle(name).describe()).times.cron).toBe('@daily');
  });

  test('schedules are listed, and foreign schedules are neither listed nor changed', async () => {
    const name = newName('listed');
    const foreign = newName('foreign');
    await create({ name, cron: '@weekly', note: 'for the list' });
    const other = await client.schedule.create({
      scheduleId: foreign,
      spec: { intervals: [{ every: '365d' }] },
      action: { type: 'startWorkflow', workflowType: 'somethingElse', taskQueue: 'nobody', args: [] },
    });
    const list = async () => {
      const names: string[] = [];
      for await (const schedule of followUps.schedules.list()) names.push(schedule.name);
      return names;
    };
    await eventually('it is listed', async () => (await list()).includes(name));
    expect(await list()).not.toContain(foreign);
    const handle = followUps.schedules.handle(foreign);
    for (const order of [
      () => handle.describe(),
      () => handle.pause(),
      () => handle.trigger(),
      () => handle.delete(),
    ]) {
      await expect(order()).rejects.toThrow(ForeignScheduleError);
    }
    expect((await other.describe()).state.paused).toBe(false);
    await other.delete();
  });

  test('every order reports a missing schedule', async () => {
    const handle = followUps.schedules.handle(newName('nowhere'));
    const past = { from: '2026-01-01T00:00:00Z', to: '2026-01-02T00:00:00Z' };
    for (const order of [
      () => handle.describe(),
      () => handle.pause(),
      () => handle.resume(),
      () => handle.trigger(),
      () => handle.backfill(past),
      () => handle.delete(),
    ]) {
      await expect(order()).rejects.toThrow(ScheduleNotFoundError);
    }
    expect(() => followUps.schedules.handle('a/b')).toThrow(InvalidInputError);
  });

  test('an unreachable server is reported', async () => {
    const nowhere = Connection.lazy({ address: '127.0.0.1:1', interceptors: [] });
    const { schedules } = new FollowUpClient({ client: new Client({ connection: nowhere }) });
    await expect(schedules.create({ name: 'x', every: '1h', input })).rejects.toThrow(TemporalUnreachableError);
    await expect(schedules.list().next()).rejects.toThrow(TemporalUnreachableError);
    await nowhere.close();
  });
});

test('each firing is its own batch, and even the longest name gives valid ids and keys', async () => {
  const name = 'n'.repeat(63) + randomUUID();
  expect(name).toHaveLength(99);
  const schedule = await create({ name, every: '1s', overlap: 'allow-all' });
  const ids = await eventually('three firings', async () => {
    const ids = await firingIds(schedule);
    return ids.length >= 3 ? ids : undefined;
  });
  await schedule.pause();
  expect(new Set(ids).size).toBe(ids.length);
  const { recentFirings } = await schedule.describe();
  for (const { batchId, workflowId, scheduledAt } of recentFirings) {
    expect(batchId).toBe(`${name}-${scheduledAt.slice(0, 19)}Z`);
    expect(parseFollowUpBatchWorkflowId(workflowId)).toEqual({ batchId });
    expect(keySchema.safeParse(batchItemKey(batchId, 999_999)).success).toBe(true);
  }
});

describe('daylight saving', () => {
  const timesOf = async (options: { cron: string; timeZone: string }, from: string, to: string) => {
    const { name } = await create({ name: newName('clock'), paused: true, ...options });
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

  test('the help and the page say so', async () => {
    const oneLine = async (path: string) => (await readFile(path, 'utf8')).replaceAll(/\s+/g, ' ');
    for (const path of ['docs/reference/commands.md', 'docs/how-to/schedule-a-batch.md']) {
      const text = await oneLine(path);
      expect(text, path).toMatch(/fires once in some zones(, such as Europe\/Berlin,)? and twice in others/);
      expect(text, path).toContain('Clocks change between 00:00 and 03:00 in most zones');
    }
  });
});

describe('pause, resume and delete', () => {
  test(
    'a paused schedule fires nothing and keeps its note, and fires again when it is resumed',
    { tags: 'long' },
    async () => {
      const schedule = await create({ name: newName('pause'), every: '1s', overlap: 'allow-all', note: 'mine' });
      expect(await schedule.pause()).toMatchObject({ paused: true, note: 'mine' });
      const pause = { since: expect.stringMatching(/^\d{4}-.*Z$/), note: 'release freeze' };
      expect(await schedule.pause('release freeze')).toMatchObject({ paused: true, note: 'mine', pause });
      const before = (await schedule.describe()).counts.fired;
      // Due times must pass to show that nothing fires.
      const [next] = (await schedule.describe()).nextFirings;
      await eventually('two due times have passed', () => Date.now() > Date.parse(next ?? '') + 2_000);
      expect((await schedule.describe()).counts.fired).toBe(before);
      const resumed = await schedule.resume();
      expect(resumed).toMatchObject({ paused: false, note: 'mine' });
      expect(resumed.pause).toBeUndefined();
      await eventually('it fires', async () => (await schedule.describe()).counts.fired > before);
    },
  );

  test('a deleted schedule is gone, names the batches that still run, and frees its name', async () => {
    const name = newName('delete');
    const schedule = await create({ name });
    const { batchId, workflowId } = await schedule.trigger();
    expect((await schedule.delete()).runningBatchIds).toEqual([batchId]);
    await expect(schedule.delete()).rejects.toThrow(ScheduleNotFoundError);
    expect((await client.workflow.getHandle(workflowId).describe()).status.name).toBe('RUNNING');
    await create({ name });
  });
});

describe('trigger obeys the overlap policy', () => {
  test('skip: nothing starts while a batch runs, and the next trigger works once it has ended', async () => {
    const schedule = await create({ name: newName('skip'), paused: true });
    const first = await schedule.trigger();
    expect(first.outcome).toBe('started');
    expect((await schedule.trigger()).outcome).toBe('skipped');
    expect(await firingIds(schedule)).toEqual([first.batchId]);
    await end(first.batchId);
    await eventually('nothing runs', async () => (await runningIds(schedule)).length === 0);
    expect((await schedule.trigger()).outcome).toBe('started');
  });

  test('buffer-one: a second batch waits for the first, and a third is skipped', async () => {
    const schedule = await create({ name: newName('buffer-one'), overlap: 'buffer-one' });
    const first = await schedule.trigger();
    const second = await schedule.trigger();
    expect([first.outcome, second.outcome]).toEqual(['started', 'buffered']);
    expect((await schedule.trigger()).outcome).toBe('skipped');
    expect(await schedule.describe()).toMatchObject({ buffered: 1, runningBatchIds: [first.batchId] });
    await end(first.batchId);
    await eventually('the second runs', async () => (await runningIds(schedule))[0] === second.batchId);
    expect(await firingIds(schedule)).toEqual([second.batchId, first.batchId]);
  });

  test('allow-all: three in a row all start, even within the same second', async () => {
    const schedule = await create({ name: newName('allow-all'), overlap: 'allow-all' });
    const triggered = [await schedule.trigger(), await schedule.trigger(), await schedule.trigger()];
    expect(triggered.map(({ outcome }) => outcome)).toEqual(['started', 'started', 'started']);
    const ids = triggered.map(({ batchId }) => batchId);
    expect(new Set(ids).size).toBe(3);
    expect(new Set(await firingIds(schedule))).toEqual(new Set(ids));
  });
});

describe('backfill', () => {
  const now = Date.now();
  const at = (hours: number) => new Date(Math.floor(now / HOUR_MS) * HOUR_MS + hours * HOUR_MS).toISOString();
  const idOf = (name: string, instant: string) => `${name}-${instant.slice(0, 19)}Z`;

  test('the firings of a range run one after another with their regular ids, and only once', async () => {
    const name = newName('backfill');
    const schedule = await create({ name, every: '1h', paused: true });
    const range = await schedule.backfill({ from: at(-4), to: at(-2) });
    expect(range).toEqual({ overlap: 'buffer-all', firings: [at(-4), at(-3), at(-2)], alreadyFired: [] });
    for (const instant of range.firings) {
      const batchId = idOf(name, instant);
      await eventually(`${batchId} runs alone`, async () => (await runningIds(schedule)).join() === batchId);
      await end(batchId);
    }
    expect(await schedule.backfill({ from: at(-4), to: at(-2) })).toEqual({
      overlap: 'buffer-all',
      firings: [],
      alreadyFired: [at(-4), at(-3), at(-2)],
    });
    // A wider range, whose middle has already fired.
    const wider = await schedule.backfill({ from: at(-5), to: at(-1), overlap: 'allow-all' });
    expect(wider).toEqual({
      overlap: 'allow-all',
      firings: [at(-5), at(-1)],
      alreadyFired: [at(-4), at(-3), at(-2)],
    });
    await eventually('both have fired', async () => (await schedule.describe()).counts.fired >= 5);
    const fired = await firingIds(schedule);
    expect([...fired].sort()).toEqual([-5, -4, -3, -2, -1].map((hours) => idOf(name, at(hours))));
  });

  test('too many firings, a range in the future and one that ends before it begins are refused', async () => {
    const schedule = await create({ name: newName('many'), every: '1m', paused: true });
    const hours = { from: at(-3), to: at(-1) };
    await expect(schedule.backfill(hours)).rejects.toThrow(
      /to: the range has 121 firings, and at most 100 are allowed/,
    );
    await expect(schedule.backfill({ from: at(-48), to: at(-1), maxFirings: 999 })).rejects.toThrow(/more than 999/);
    await expect(schedule.backfill({ from: at(-1), to: at(2) })).rejects.toThrow(/to: must not be later than now/);
    await expect(schedule.backfill({ from: at(-1), to: at(-2) })).rejects.toThrow(/to: must not be earlier than from/);
    expect((await schedule.describe()).counts.fired).toBe(0);
  });
});
