import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { InterceptingCall, type Interceptor } from '@grpc/grpc-js';
import { Client, Connection, type WorkflowHandle } from '@temporalio/client';
import { type SearchAttributePair, TypedSearchAttributes } from '@temporalio/common';
import { expect, onTestFinished } from 'vitest';
import { createBudgets } from '../../src/activities/budgets.js';
import type { ListedFollowUp } from '../../src/budget/counting.js';
import { DEFAULT_BUDGET_SETTINGS } from '../../src/client/budget-handle.js';
import { FollowUpClient, type ListFilter } from '../../src/client/index.js';
import { followUpStates, followUpWorkflowId, openStates, SearchAttribute } from '../../src/contract/index.js';
import { callRetries, GrpcStatus, grpcStatusOf } from '../../src/temporal/grpc.js';
import { fewAtATime } from '../../src/temporal/lookups.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { pauseWorkflow } from '../support/buttons.js';
import { eventually } from '../support/eventually.js';
import { startStack } from '../support/stack.js';
import { testServerAge } from '../support/temporal-server-binaries.js';

const HOUR_MS = 3_600_000;
/** It has every character that could mean something in a query or a pattern, and that a link may have. */
const ODD_LINK = 'https://git.example/100%25_(!)/*--;[`/pull/1?q=~&x#';
const ODD_ID = 'OR.1~_--';
/** Behind so many follow-ups of one project, a second query looks for the other projects. */
const FULL_PAGE = 1_000;

/**
 * The settings of a server for {@link checkListQueries}.
 *
 * @param isUnified which of its two converters of list queries server 1.32 uses: by default, the unified one
 */
export const serverSettings = (isUnified: boolean): Record<string, boolean | number> => ({
  'system.visibilityEnableUnifiedQueryConverter': isUnified,
  'frontend.WorkflowPauseEnabled': true,
  // By default 10, except in a development server.
  'frontend.namespaceRPS.visibility': 1_000,
  // Fewer than by default, because each takes 10 s.
  'system.numConsecutiveWorkflowTaskProblemsToTriggerSearchAttribute': 3,
});

/**
 * Sends every query that `src` sends to Temporal's lists, and expects the right answers.
 *
 * @param address of a server with {@link serverSettings} and an empty namespace `default`
 */
export async function checkListQueries(address: string, isUnified: boolean): Promise<void> {
  const stack = await startStack({ address });
  onTestFinished(() => stack.stop());
  const sentFrom = new Set<string>();
  const connection = await Connection.connect({ address, interceptors: [noteLines(sentFrom), ...callRetries()] });
  onTestFinished(() => connection.close());
  const client = new Client({ connection });
  const { taskQueue } = stack;
  const followUps = new FollowUpClient({ client, taskQueue });
  const { listSends } = createBudgets(client, { taskQueue, settings: DEFAULT_BUDGET_SETTINGS });
  const isNewest = testServerAge === 'newest';

  await ensureSearchAttributes(connection, 'default');
  // What only the unified converter checks.
  const problem = await client.workflow.count('FollowUpJobId = 1').catch(grpcStatusOf);
  expect(problem === GrpcStatus.INVALID_ARGUMENT).toBe(isUnified);

  /** Starts a follow-up that no worker takes, so that it stays as it is. */
  const place = (
    path: string,
    { lastSendAt, ...more }: { state?: string; prLink?: string; lastSendAt?: Date } = {},
  ): Promise<WorkflowHandle> => {
    const [projectId = '', jobId = ''] = path.split('/');
    const keywords = Object.entries({ projectId, jobId, ...more });
    const pairs: SearchAttributePair[] = keywords.map(([name, value]) => ({
      key: SearchAttribute[name as 'projectId' | 'jobId' | 'state' | 'prLink'],
      value,
    }));
    if (lastSendAt) pairs.push({ key: SearchAttribute.lastSendAt, value: lastSendAt });
    return client.workflow.start('followUp', {
      workflowId: followUpWorkflowId({ projectId, jobId, key: 'key' }),
      taskQueue: 'nobody',
      typedSearchAttributes: new TypedSearchAttributes(pairs),
    });
  };
  const pause = async (workflowId: string) => isNewest && pauseWorkflow(client, workflowId);
  await client.workflowService.startWorkflowExecution({
    ...{ namespace: 'default', requestId: 'wedged', workflowId: 'project-budget/wedged' },
    ...{ workflowType: { name: 'projectBudget' }, taskQueue: { name: `${taskQueue}-budget` } },
    // No worker can read it, so each of its workflow tasks fails.
    input: { payloads: [{ metadata: { encoding: Buffer.from('no/encoding') }, data: Buffer.from('x') }] },
  });

  for (const state of followUpStates) await place(`states/${state}`, { state });
  await place('pulls/odd', { prLink: ODD_LINK });
  await place('pulls/other-path', { prLink: ODD_LINK.replace('_', 'x') });
  await place('pulls/other-query', { prLink: ODD_LINK.replace('&', '&y') });
  for (const id of [ODD_ID, `${ODD_ID}x`, ODD_ID.toLowerCase()]) await place(`${ODD_ID}/${id}`);
  await place(`other/${ODD_ID}`);
  await place('sends/unstarted');
  await place('sends/waiting', { state: 'waiting-for-budget' });
  const lastSendAt = new Date();
  await place('sends/waiting-again', { state: 'waiting-for-budget', lastSendAt });
  await place('sends/polling', { state: 'polling' });
  await pause((await place('sends/paused', { state: 'polling' })).workflowId);
  await (await place('sends/terminated', { state: 'polling', lastSendAt })).terminate();
  await (await place('sends/never-sent', { state: 'waiting-for-budget' })).terminate();
  await (await place('sends/not-sent', { state: 'not-sent' })).terminate();
  await (await place('ended/job')).terminate();

  for (const projectId of ['sends', 'ended', 'idle', 'stopped']) await followUps.budget(projectId).resume();
  await pause('project-budget/idle');
  await client.workflow.getHandle('project-budget/stopped').terminate();
  await followUps.budget('batched').setLimit({ limit: 0 });
  const startBatch = (id: string, jobIds: string[]) => {
    const items = jobIds.map((jobId) => ({ projectId: 'batched', jobId, prompt: 'Add tests.' }));
    for (const item of items) stack.simulator.addJob(item);
    return followUps.startBatch({ id, items });
  };
  const batch = await startBatch('night:1.5~x', ['one', 'two']);
  const cutOff = await startBatch('night:1.5~', ['three']);
  await eventually('all items are open', async () => (await batch.status()).open + (await cutOff.status()).open === 3);
  const [part = ''] = await batch.parts();
  await pause(part);
  await client.workflow.getHandle(cutOff.workflowId).terminate();

  const input = { items: [{ projectId: 'batched', jobId: 'one', prompt: 'Add tests.' }] };
  await followUps.schedules.create({ name: 'nightly', every: '6h', paused: true, input });
  await client.schedule.create({
    ...{ scheduleId: 'foreign', spec: { intervals: [{ every: '365d' }] } },
    action: { type: 'startWorkflow', workflowType: 'somethingElse', taskQueue: 'nobody', args: [] },
  });
  await fewAtATime([...Array(FULL_PAGE).keys()], (index) => place(`bulk/${index}`));

  const list = async (filter: ListFilter) => {
    const found = await allOf(followUps.list(filter));
    return found.map(({ projectId, jobId }) => `${projectId}/${jobId}`).sort();
  };
  const jobsOfSends = async (sinceMs: number) => {
    const { sends } = await listSends({ projectId: 'sends', sinceMs });
    const describe = ({ workflowId, isRunning, sentAtMs }: ListedFollowUp) =>
      [workflowId.split('/')[2], isRunning, sentAtMs].join(' ').trim();
    return sends.map(describe).sort();
  };
  const read = async () => {
    const health = await followUps.health();
    const troubles = health.troubles.filter(({ kind }) => kind !== 'unattended');
    const budgets = await allOf(followUps.budgets());
    const since = new Date(Date.now() + HOUR_MS).toISOString();
    return {
      all: (await list({})).length,
      states: (await fewAtATime(followUpStates, (state) => list({ project: 'states', state }))).flat(),
      link: await list({ pr: ODD_LINK }),
      project: await list({ project: ODD_ID }),
      job: await list({ job: ODD_ID }),
      batch: await list({ batch: batch.batchId }),
      since: [(await list({ project: 'sends', since: '1h' })).length, await list({ since })],
      counts: health.followUps,
      examined: health.waiting.toSorted(),
      batches: health.batchIds,
      troubles: troubles.map(({ kind, workflowId }) => `${kind} ${workflowId}`).sort(),
      ofBatch: (await batch.troubles()).map(({ kind, workflowId }) => `${kind} ${workflowId}`),
      waiting: (await batch.status()).waitingToSend,
      stillRunning: (await cutOff.status()).listed?.filter(({ isRunning }) => isRunning).length,
      budgets: budgets
        .filter(({ trouble }) => !trouble)
        .map(({ projectId, isNeeded, status }) => `${projectId} ${isNeeded} ${Boolean(status)}`)
        .sort(),
      sends: await jobsOfSends(Date.now() - HOUR_MS),
      recent: await jobsOfSends(Date.now() + HOUR_MS),
      schedules: (await allOf(followUps.schedules.list())).map(({ name }) => name),
    };
  };
  const sentAtMs = lastSendAt.getTime();
  const onlyNewest = (...troubles: string[]) => (isNewest ? troubles : []);
  await expect.poll(read, { interval: 1_000 }).toEqual({
    all: FULL_PAGE + followUpStates.length + 19,
    states: followUpStates.map((state) => `states/${state}`),
    link: ['pulls/odd'],
    project: [ODD_ID, `${ODD_ID}x`, ODD_ID.toLowerCase()].map((id) => `${ODD_ID}/${id}`).sort(),
    job: [`${ODD_ID}/${ODD_ID}`, `other/${ODD_ID}`],
    batch: ['batched/one', 'batched/two'],
    since: [8, []],
    counts: {
      ...Object.fromEntries(openStates.map((state) => [state, 1])),
      ...{ starting: FULL_PAGE + 8, 'waiting-for-budget': 6, polling: 3 },
    },
    examined: [
      'follow-up/batched/one/night:1.5~x:0',
      'follow-up/batched/three/night:1.5~:0',
      'follow-up/batched/two/night:1.5~x:1',
      'follow-up/sends/waiting-again/key',
      'follow-up/sends/waiting/key',
      'follow-up/states/blocked/key',
      'follow-up/states/waiting-for-budget/key',
    ],
    batches: [batch.batchId],
    troubles: [
      'closed project-budget/stopped',
      ...onlyNewest('failing project-budget/wedged'),
      'missing project-budget/states',
      ...onlyNewest(`paused ${part}`, 'paused follow-up/sends/paused/key'),
      ...onlyNewest('paused project-budget/idle'),
    ],
    ofBatch: onlyNewest(`paused ${part}`),
    waiting: 2,
    stillRunning: 1,
    budgets: [
      ...[`${ODD_ID} true false`, 'batched true true', 'bulk true false', 'ended false true', 'idle false false'],
      ...['other true false', 'pulls true false', 'sends true true', 'states true false', 'wedged false false'],
    ].sort(),
    sends: [
      ...['paused true', 'polling true', `terminated false ${sentAtMs}`, 'waiting true'],
      `waiting-again true ${sentAtMs}`,
    ],
    recent: ['paused true', 'polling true', 'waiting true', 'waiting-again true'],
    schedules: ['nightly'],
  });

  const missing = (await linesWithQueries()).filter((line) => !sentFrom.has(line));
  expect(missing, 'these lines send a list query that this test does not cover').toEqual([]);
}

async function allOf<T>(list: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const each of list) found.push(each);
  return found;
}

/** Notes which lines of `src` call Temporal's lists, directly or through others. */
function noteLines(lines: Set<string>): Interceptor {
  return (options, nextCall) => {
    if (/\/(List|Count)(WorkflowExecutions|Schedules)$/.test(options.method_definition.path)) {
      const { stackTraceLimit } = Error;
      Error.stackTraceLimit = 100;
      for (const [line] of new Error().stack?.matchAll(/src\/[\w/-]+\.ts:\d+/g) ?? []) lines.add(line);
      Error.stackTraceLimit = stackTraceLimit;
    }
    return new InterceptingCall(nextCall(options));
  };
}

const SENDS_QUERY =
  /(?<!function\*? )\b(listIds|listWorkflows|findProjects|findTroubles|(workflow|schedule)\.(list|count)|(list|count)WorkflowExecutions)\(/;

/** The lines of `src` that call Temporal's lists, without the helpers that the others use. */
async function linesWithQueries(): Promise<string[]> {
  const found: string[] = [];
  for (const name of await readdir('src', { recursive: true })) {
    const path = join('src', name);
    if (!path.endsWith('.ts') || path === 'src/client/temporal.ts') continue;
    const lines = (await readFile(path, 'utf8')).split('\n');
    found.push(...lines.flatMap((line, index) => (SENDS_QUERY.test(line) ? [`${path}:${index + 1}`] : [])));
  }
  return found;
}
