import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { FollowUpClient, InvalidInputError, parseStartInput } from '../../src/client/index.js';
import { listQuery } from '../../src/client/list.js';
import { SearchAttribute } from '../../src/contract/index.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { makeNamespace } from '../worker/support.js';

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

const input = (jobId: string, key?: string) => ({
  ...{ projectId: project, jobId, prompt: 'Add tests.', ...(key && { key }) },
});

test('start gives the workflow its id, task queue, search attributes and summary', async () => {
  const started = await followUps.start(input('job-1', 'k1'));
  expect(started).toMatchObject({ workflowId: `follow-up/${project}/job-1/k1`, key: 'k1', alreadyStarted: false });
  const description = await client.workflow.getHandle(started.workflowId).describe();
  expect(description).toMatchObject({ type: 'followUp', taskQueue });
  expect(description.typedSearchAttributes.get(SearchAttribute.projectId)).toBe(project);
  expect(description.typedSearchAttributes.get(SearchAttribute.jobId)).toBe('job-1');
  expect(await description.staticSummary()).toBe(`Follow-up to job-1 (${project})`);
});

test('a batch whose start was aborted is not started', async () => {
  const id = `batch-${randomUUID()}`;
  const signal = AbortSignal.abort(new Error('called off'));
  await expect(followUps.startBatch({ id, items: [input('job-0')] }, { signal })).rejects.toThrow('called off');
  await expect(followUps.batch(id).describe()).rejects.toMatchObject({ type: 'BatchNotFound' });
});

test('starts without a key start a follow-up each; ten starts with one key start one, and the key stays used', async () => {
  for (const _ of ['one', 'another'])
    expect(await followUps.start(input('job-2'))).toMatchObject({ alreadyStarted: false });
  const starts = await Promise.all(Array.from({ length: 10 }, () => followUps.start(input('job-3', 'race'))));
  expect(starts.filter(({ alreadyStarted }) => !alreadyStarted)).toHaveLength(1);
  expect(starts.filter(({ inputDiffers }) => inputDiffers === true)).toEqual([]);
  await client.workflow.getHandle(`follow-up/${project}/job-3/race`).terminate('done');
  expect(await followUps.start(input('job-3', 'race'))).toMatchObject({ alreadyStarted: true });
});

test('a start with a used key says whether the input differs in meaning', async () => {
  await followUps.start({ ...input('job-4', 'k'), jobTimeout: '1h' });
  const same = await followUps.start({ ...input('job-4', 'k'), jobTimeout: 3_600_000, lane: 'interactive' });
  expect(same).toMatchObject({ alreadyStarted: true, inputDiffers: false });
  const other = await followUps.start({ ...input('job-4', 'k'), jobTimeout: '2h' });
  expect(other).toMatchObject({ alreadyStarted: true, inputDiffers: true });
});

test('invalid input is refused with every bad field named, and counts as not delivered', async () => {
  const bad = { projectId: 'a b', jobId: '..', prompt: '', key: 'a/b' };
  const issues = ['projectId', 'jobId', 'prompt', 'key'].map((field) => ({ field }));
  const refusal = { name: 'InvalidInputError', issues, delivered: 'no' };
  await expect(followUps.start(bad)).rejects.toMatchObject(refusal);
  for (const id of ['project-budget/p', 'follow-up/p/../k'])
    expect(() => followUps.handle(id)).toThrow(InvalidInputError);
  expect(() => followUps.budget('a b')).toThrow(InvalidInputError);
});

test('ids that make the workflow id too long for Temporal are refused with their lengths', () => {
  const ids = { projectId: 'x'.repeat(100), jobId: 'x'.repeat(100), prompt: 'p' };
  expect(parseStartInput({ ...ids, key: 'x'.repeat(43) })).toMatchObject({ key: 'x'.repeat(43) });
  expect(() => parseStartInput({ ...ids, key: 'x'.repeat(44) })).toThrow(
    'workflowId: would have 256 characters, and Temporal keeps 255: projectId, jobId and key must have at most 243 ' +
      'together (given projectId 100, jobId 100, key 44)',
  );
});

test('a list query contains only checked values', () => {
  expect(listQuery({})).toBe("WorkflowType = 'followUp'");
  expect(listQuery({ project: 'p', state: 'polling', batch: 'b:1' })).toBe(
    "WorkflowType = 'followUp' AND FollowUpProjectId = 'p' AND FollowUpState = 'polling' AND FollowUpBatchId = 'b:1'",
  );
  const pr = 'https://git.example/a/pull/%27';
  expect(listQuery({ job: 'j', pr, since: '1h' }, Date.UTC(2026, 0, 2, 12))).toBe(
    `WorkflowType = 'followUp' AND FollowUpJobId = 'j' AND FollowUpPrLink = '${pr}' AND StartTime >= '2026-01-02T11:00:00.000Z'`,
  );
  // With PostgreSQL, Temporal takes a question mark for a parameter.
  expect(listQuery({ pr: `${pr}?x` })).toContain(` STARTS_WITH '${pr}'`);
  expect(listQuery({ since: '2026-01-02T12:00:00+01:00' })).toContain("StartTime >= '2026-01-02T11:00:00.000Z'");
  const bad = [
    ...["https://x/' OR '1'='1", 'https://x/\\', 'not a link', `https://x/${'a'.repeat(250)}`].map((pr) => ({ pr })),
    ...['yesterday', '2026-01-02T12:00:00', '2026-01-02', -5].map((since) => ({ since })),
    ...[{ project: "p' OR '1'='1" }, { state: 'sleeping' as 'polling' }],
  ];
  for (const filter of bad) expect(() => listQuery(filter), JSON.stringify(filter)).toThrow(InvalidInputError);
});

test('a missing namespace is reported; missing search attributes are reported with the command that adds them', async () => {
  const inNamespace = (namespace: string) => new FollowUpClient({ client: new Client({ connection, namespace }) });
  await expect(inNamespace('nowhere').start(input('job-7'))).rejects.toThrow(
    /^Temporal at \S+ has no namespace nowhere$/,
  );
  const bare = inNamespace(await makeNamespace(connection));
  const message = expect.stringContaining('follow-up setup');
  await expect(bare.start(input('job-8'))).rejects.toMatchObject({ type: 'SearchAttributesMissing', message });
});
