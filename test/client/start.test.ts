import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import {
  FollowUpClient,
  InvalidInputError,
  parseStartInput,
  TemporalUnreachableError,
} from '../../src/client/index.js';
import { listQuery } from '../../src/client/list.js';
import { eventually } from '../support/eventually.js';
import { SearchAttribute } from '../../src/contract/index.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';

// No worker polls this task queue: starting needs none.
const taskQueue = `client-${randomUUID()}`;
const project = `client-${randomUUID().slice(0, 8)}`;
let connection: Connection;
let client: Client;
let followUps: FollowUpClient;

beforeAll(async () => {
  connection = await Connection.connect({ address: inject('temporalAddress') });
  await ensureSearchAttributes(connection, 'default');
  client = new Client({ connection });
  followUps = new FollowUpClient({ client, taskQueue });
});
afterAll(() => connection.close());

const input = (jobId: string) => ({ projectId: project, jobId, prompt: 'Add tests.' });

test('start gives the workflow its id, task queue, search attributes and summary', async () => {
  const started = await followUps.start({ ...input('job-1'), key: 'k1' });
  expect(started).toMatchObject({ workflowId: `follow-up/${project}/job-1/k1`, key: 'k1', alreadyStarted: false });
  const description = await client.workflow.getHandle(started.workflowId).describe();
  expect(description.type).toBe('followUp');
  expect(description.taskQueue).toBe(taskQueue);
  expect(description.typedSearchAttributes.get(SearchAttribute.projectId)).toBe(project);
  expect(description.typedSearchAttributes.get(SearchAttribute.jobId)).toBe('job-1');
  expect(await description.staticSummary()).toBe(`Follow-up to job-1 (${project})`);
});

test('a batch whose start was called off is not started', async () => {
  const id = `batch-${randomUUID()}`;
  const signal = AbortSignal.abort(new Error('called off'));
  await expect(followUps.startBatch({ id, items: [input('job-0')] }, { signal })).rejects.toThrow('called off');
  await expect(followUps.batch(id).describe()).rejects.toMatchObject({ type: 'BatchNotFound' });
});

test('two starts without a key are two follow-ups', async () => {
  const [one, two] = [await followUps.start(input('job-2')), await followUps.start(input('job-2'))];
  expect(one.workflowId).not.toBe(two.workflowId);
  expect([one.alreadyStarted, two.alreadyStarted]).toEqual([false, false]);
});

test('of ten simultaneous starts with one key, one starts the follow-up and the others find it', async () => {
  const starts = await Promise.all(
    Array.from({ length: 10 }, () => followUps.start({ ...input('job-3'), key: 'race' })),
  );
  expect(starts.filter(({ alreadyStarted }) => !alreadyStarted)).toHaveLength(1);
  expect(starts.filter(({ inputDiffers }) => inputDiffers === true)).toHaveLength(0);
});

test('a start with a used key says whether the input differs in meaning', async () => {
  await followUps.start({ ...input('job-4'), key: 'k', jobTimeout: '1h' });
  const same = await followUps.start({ ...input('job-4'), key: 'k', jobTimeout: 3_600_000, lane: 'interactive' });
  expect(same).toMatchObject({ alreadyStarted: true, inputDiffers: false });
  const other = await followUps.start({ ...input('job-4'), key: 'k', jobTimeout: '2h' });
  expect(other).toMatchObject({ alreadyStarted: true, inputDiffers: true });
});

test('a key stays used after the end of its follow-up', async () => {
  const started = await followUps.start({ ...input('job-5'), key: 'k' });
  await client.workflow.getHandle(started.workflowId).terminate('done');
  expect(await followUps.start({ ...input('job-5'), key: 'k' })).toMatchObject({ alreadyStarted: true });
});

test('invalid input is refused with every bad field named, and counts as not delivered', async () => {
  const bad = { projectId: 'a b', jobId: '..', prompt: '', key: 'a/b' };
  const error = await followUps.start(bad).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(InvalidInputError);
  const { issues, delivered } = error as InvalidInputError;
  expect(new Set(issues.map(({ field }) => field))).toEqual(new Set(['projectId', 'jobId', 'prompt', 'key']));
  expect(delivered).toBe('no');
});

test('ids that make the workflow id too long for Temporal are refused with their lengths', async () => {
  const long = (length: number) => 'x'.repeat(length);
  const ids = { projectId: long(100), jobId: long(100), key: long(44) };
  const error = await followUps.start({ ...ids, prompt: 'p' }).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(InvalidInputError);
  const message =
    'would have 256 characters, and Temporal keeps 255: projectId, jobId and key must have at most 243 together ' +
    '(given projectId 100, jobId 100, key 44)';
  expect((error as InvalidInputError).issues).toEqual([{ field: 'workflowId', message }]);
  expect(parseStartInput({ ...ids, key: long(43), prompt: 'p' })).toMatchObject({ key: long(43) });
});

test('handle and budget refuse an invalid id', () => {
  expect(() => followUps.handle('project-budget/p')).toThrow(InvalidInputError);
  expect(() => followUps.handle('follow-up/p/../k')).toThrow(InvalidInputError);
  expect(() => followUps.budget('a b')).toThrow(InvalidInputError);
});

test('a list query contains only checked values', () => {
  expect(listQuery({})).toBe("WorkflowType = 'followUp'");
  expect(listQuery({ project: 'p', state: 'polling', batch: 'b:1' })).toBe(
    "WorkflowType = 'followUp' AND FollowUpProjectId = 'p' AND FollowUpState = 'polling' AND FollowUpBatchId = 'b:1'",
  );
  expect(listQuery({ job: 'j', pr: 'https://git.example/a/pull/1?x=%27', since: '1h' }, Date.UTC(2026, 0, 2, 12))).toBe(
    "WorkflowType = 'followUp' AND FollowUpJobId = 'j' AND FollowUpPrLink = 'https://git.example/a/pull/1?x=%27'" +
      " AND StartTime >= '2026-01-02T11:00:00.000Z'",
  );
  expect(listQuery({ since: '2026-01-02T12:00:00+01:00' })).toContain("StartTime >= '2026-01-02T11:00:00.000Z'");
  for (const pr of ["https://x/' OR '1'='1", 'https://x/\\', 'not a link', `https://x/${'a'.repeat(250)}`]) {
    expect(() => listQuery({ pr })).toThrow(InvalidInputError);
  }
  for (const since of ['yesterday', '2026-01-02T12:00:00', '2026-01-02', -5]) {
    expect(() => listQuery({ since })).toThrow(InvalidInputError);
  }
  expect(() => listQuery({ project: "p' OR '1'='1" })).toThrow(InvalidInputError);
  expect(() => listQuery({ state: 'sleeping' as 'polling' })).toThrow(InvalidInputError);
});

test('an unreachable server is reported with its address and the id of the follow-up', async () => {
  const nowhere = Connection.lazy({ address: '127.0.0.1:1', interceptors: [] });
  const away = new FollowUpClient({ client: new Client({ connection: nowhere }) });
  const error = await away.start({ ...input('job-6'), key: 'k' }).catch((thrown: unknown) => thrown);
  await nowhere.close();
  expect(error).toBeInstanceOf(TemporalUnreachableError);
  expect(error).toMatchObject({
    address: '127.0.0.1:1',
    workflowId: `follow-up/${project}/job-6/k`,
  });
});

test('a missing namespace is reported', async () => {
  const elsewhere = new FollowUpClient({ client: new Client({ connection, namespace: 'nowhere' }) });
  await expect(elsewhere.start(input('job-7'))).rejects.toThrow(/no namespace nowhere/);
});

test('a namespace without the search attributes is reported with the command that adds them', async () => {
  const namespace = `bare-${randomUUID().slice(0, 8)}`;
  await connection.workflowService.registerNamespace({
    namespace,
    workflowExecutionRetentionPeriod: msToTs(86_400_000),
  });
  const bare = new FollowUpClient({ client: new Client({ connection, namespace }) });
  // The server caches namespaces, so a new one takes a moment.
  const error = await eventually('the namespace is known', async () => {
    const thrown = await bare.start(input('job-8')).catch((reason: unknown) => reason);
    return thrown instanceof TemporalUnreachableError ? undefined : thrown;
  });
  expect(error).toMatchObject({ type: 'SearchAttributesMissing', message: expect.stringContaining('follow-up setup') });
});
