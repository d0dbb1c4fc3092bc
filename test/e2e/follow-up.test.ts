import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { WorkflowFailedError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import type { StartedFollowUp } from '../../src/client/index.js';
import { SearchAttribute, type FailureDetails } from '../../src/contract/index.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

/** A turn that lasts until {@link endOfTurn}. */
const HELD_TURN = { behaviour: { neverEnds: true } };
const PR_OF_TURN = 'https://git.example/pull/2';

let stack: Stack;
let count = 0;
/** Each test has its own job in its own project. */
function makeJob(jobId = 'job', more: object = {}) {
  const projectId = `e2e-${++count}-${Date.now()}`;
  stack.simulator.addJob({ projectId, jobId, ...more });
  return { projectId, jobId, prompt: `message ${count}`, ...FAST };
}
const accepted = (projectId: string) =>
  stack.simulator.ledger.filter((entry) => entry.projectId === projectId && entry.accepted).length;

/** Ends a held turn once the agent has been seen at work. */
async function endOfTurn(followUp: StartedFollowUp): Promise<void> {
  const seen = async () => (await followUp.progress()).jobStatus === 'active';
  await eventually('the agent has been seen at work', seen);
  const { projectId, jobId } = await followUp.progress();
  stack.simulator.changeJob({ projectId, jobId, status: 'completed', prLink: PR_OF_TURN });
}

beforeAll(async () => {
  stack = await startStack({
    address: inject('temporalAddress'),
    simulator: { turn: { minMs: 1_000, maxMs: 1_500 } },
  });
});
afterAll(() => stack.stop());

describe.concurrent('a follow-up', () => {
  test('is delivered once and ends with its pull request', async () => {
    const input = makeJob('job', HELD_TURN);
    const followUp = await stack.followUps.start(input);
    await endOfTurn(followUp);
    expect(await followUp.result()).toMatchObject({
      ...{ status: 'completed', delivery: 'sent', observedActive: true },
      ...{ prLink: PR_OF_TURN, prLinkChanged: true },
    });
    expect(accepted(input.projectId)).toBe(1);
  });

  test('whose key was used before returns the first result and sends nothing', async () => {
    const input = { ...makeJob(), key: 'once' };
    const first = await stack.followUps.run(input);
    const again = await stack.followUps.start({ ...input, prompt: 'something else' });
    expect(again).toMatchObject({ alreadyStarted: true, inputDiffers: true });
    expect(await again.result()).toEqual(first);
    expect(accepted(input.projectId)).toBe(1);
  });

  test.each([
    ['fail-1', { status: 'failed' }, 'job-failed'],
    ['archive-1', { status: 'archived' }, 'archived'],
    ['nopr-1', { status: 'completed', prLink: null }, 'completed'],
  ])('to %s ends with a result, not a failure', async (jobId, expected, state) => {
    const handle = await stack.followUps.start(makeJob(jobId));
    expect(await handle.result()).toMatchObject(expected);
    expect(await handle.describe()).toMatchObject({ state });
    expect(await handle.progress()).toMatchObject({ state });
  });

  test('waits and sends nothing while the service answers reads with an error and status 200, and says so', async () => {
    const input = makeJob();
    const { projectId, jobId } = input;
    stack.simulator.failNext({ method: 'GET', projectId, jobId, how: { status: 200 }, times: 1_000 });
    const handle = await stack.followUps.start(input);
    const { lastError } = await eventually('it is blocked', async () => {
      const progress = await handle.progress();
      return progress.state === 'blocked' ? progress : undefined;
    });
    expect(lastError?.message).toContain('not an agent job: planned answer');
    await handle.cancel();
    await expect(handle.result()).rejects.toMatchObject({ delivered: 'no' });
    expect(accepted(projectId)).toBe(0);
  });

  test('shows no status and no pull request before its send, although its job has both', async () => {
    const input = makeJob('job', { status: 'active', behaviour: { neverEnds: true } });
    const handle = await stack.followUps.start(input);
    await eventually('it waits', async () => (await handle.progress()).state === 'waiting-for-job');
    const summary = await handle.describe();
    expect(summary).toMatchObject({ state: 'waiting-for-job' });
    expect(summary).not.toHaveProperty('jobStatus');
    expect(summary).not.toHaveProperty('prLink');
    await handle.cancel();
    await expect(handle.result()).rejects.toMatchObject({ delivered: 'no' });
    expect(await handle.describe()).toMatchObject({ status: 'cancelled', state: 'cancelled' });
  });

  // It changes what the service shows to all tests.
  test(
    'that ends before the service shows it at work is not fooled by the old status',
    { concurrent: false },
    async () => {
      stack.simulator.update({ staleWindowMs: 1_500 });
      try {
        const input = makeJob();
        const before = stack.simulator.job(input.projectId, input.jobId)?.prLink;
        const result = await stack.followUps.run(input);
        expect(result.prLink).not.toBe(before);
        expect(result.prLink).toBe(stack.simulator.job(input.projectId, input.jobId)?.prLink);
      } finally {
        stack.simulator.update({ staleWindowMs: 0 });
      }
    },
  );

  test.each([
    ['archived-1', 'JobArchived'],
    ['missing-1', 'JobNotFound'],
  ])('to %s fails with %s and sends nothing', async (jobId, type) => {
    const input = jobId === 'missing-1' ? { ...makeJob(), jobId } : makeJob(jobId);
    const handle = await stack.followUps.start(input);
    await expect(handle.result()).rejects.toMatchObject({ type, delivered: 'no' });
    expect(await handle.describe()).toMatchObject({ status: 'failed', state: 'not-sent' });
    expect(await handle.progress()).toMatchObject({ state: 'not-sent', failure: { type, delivered: 'no' } });
    expect(accepted(input.projectId)).toBe(0);
  });

  test('whose message took effect but got no answer infers the delivery from the job, and is not sent again', async () => {
    const input = makeJob('job', HELD_TURN);
    stack.simulator.failNext({
      method: 'POST',
      jobId: input.jobId,
      projectId: input.projectId,
      when: 'after',
      how: 'reset',
    });
    const followUp = await stack.followUps.start(input);
    await endOfTurn(followUp);
    expect(await followUp.result()).toMatchObject({ delivery: 'inferred', observedActive: true });
    expect(accepted(input.projectId)).toBe(1);
  });

  test(
    'costs at most 24 events, even if its job ends so early that more reads confirm it',
    { tags: 'long' },
    async () => {
      const input = makeJob('job', { behaviour: { turnFactor: 5 } });
      // The first follow-up of a project waits while its budget starts.
      const budget = stack.followUps.budget(input.projectId);
      await budget.resume();
      await eventually('the budget has counted', async () => !(await budget.status())?.isCounting);
      const handle = await stack.followUps.start(input);
      await handle.result();
      const { events } = await stack.client.workflow.getHandle(handle.workflowId).fetchHistory();
      expect(events?.length).toBeLessThanOrEqual(24);
    },
  );

  test('shows in search attributes, summary and details', async () => {
    const input = makeJob();
    const handle = await stack.followUps.start(input);
    const result = await handle.result();
    const description = await stack.client.workflow.getHandle(handle.workflowId).describe();
    const attribute = (key: { name: string }) =>
      description.typedSearchAttributes.getAll().find((pair) => pair.key.name === key.name)?.value;
    expect(attribute(SearchAttribute.projectId)).toBe(input.projectId);
    expect(attribute(SearchAttribute.jobId)).toBe(input.jobId);
    expect(attribute(SearchAttribute.state)).toBe('completed');
    expect(attribute(SearchAttribute.jobStatus)).toBe('completed');
    expect(attribute(SearchAttribute.prLink)).toBe(result.prLink);
    expect(await description.staticSummary()).toContain(input.jobId);
    const { definition, currentDetails } = await stack.client.workflow
      .getHandle(handle.workflowId)
      .query<{ definition: unknown; currentDetails: string }>('__temporal_workflow_metadata');
    expect(definition).toBeDefined();
    expect(currentDetails).toContain('**completed**');
    expect(currentDetails).toContain(`<${result.prLink}>`);
    const listed = await eventually('the follow-up is listed by its state', async () => {
      const found: string[] = [];
      const query = `FollowUpState = 'completed' AND FollowUpProjectId = '${input.projectId}'`;
      for await (const execution of stack.client.workflow.list({ query })) found.push(execution.workflowId);
      return found.length > 0 ? found : undefined;
    });
    expect(listed).toEqual([handle.workflowId]);
  });
});

test('the saved views in the docs are queries that Temporal accepts', async () => {
  const page = readFileSync(new URL('../../docs/how-to/temporal-ui.md', import.meta.url), 'utf8');
  const queries = [...page.matchAll(/^\| [^|]+\| `(WorkflowType = [^`]+)`/gm)].map(([, query]) => query ?? '');
  expect(queries).toHaveLength(6);
  for (const query of queries) {
    expect((await stack.client.workflow.count(query)).count).toBeGreaterThanOrEqual(0);
  }
});

describe('input', () => {
  const valid = { projectId: 'p', jobId: 'j', prompt: 'hello' };
  test.each<[string, unknown, string[]]>([
    ['no input', undefined, ['']],
    ['null', null, ['']],
    ['a number', 7, ['']],
    ['a list', [valid], ['']],
    ['an empty object', {}, ['projectId', 'jobId', 'prompt']],
    ['an empty prompt', { ...valid, prompt: '' }, ['prompt']],
    ['two dots', { ...valid, jobId: '..' }, ['jobId']],
    ['a path', { ...valid, projectId: 'a/b' }, ['projectId']],
    ['an unknown field', { ...valid, apiKey: 'x' }, ['apiKey']],
    ['bad durations', { ...valid, jobTimeout: '5 parsecs', settleTime: -1 }, ['settleTime', 'jobTimeout']],
    ['a bad nested field', { ...valid, poll: { initialInterval: '2m', maxInterval: '1m' } }, ['poll.maxInterval']],
    ['a prompt that is too long', { ...valid, prompt: 'ä'.repeat(131_073) }, ['prompt']],
    ['another workflow id', { ...valid, jobId: 'other' }, ['workflowId']],
    ['another workflow id and a bad field', { ...valid, jobId: 'other', prompt: '' }, ['prompt', 'workflowId']],
  ])('of %s fails at once, naming every bad field', async (_name, input, fields) => {
    const handle = await stack.client.workflow.start('followUp', {
      taskQueue: stack.taskQueue,
      workflowId: `follow-up/p/j/bad-${++count}-${Date.now()}`,
      args: input === undefined ? [] : [input],
    });
    const error: unknown = await handle.result().catch((reason: unknown) => reason);
    if (!(error instanceof WorkflowFailedError) || !(error.cause instanceof ApplicationFailure)) throw error;
    expect(error.cause.type).toBe('InvalidInput');
    const details = error.cause.details?.[0] as FailureDetails;
    expect(details.delivered).toBe('no');
    expect(details.issues?.map((issue) => issue.field)).toEqual(fields);
    const { events } = await handle.fetchHistory();
    expect(events?.some((event) => event.workflowTaskFailedEventAttributes)).toBe(false);
  });

  test.each<[string, unknown, { projectId: string; jobId: string }]>([
    ['its own ids if they are valid', { ...valid, projectId: 'p', jobId: 'other' }, { projectId: 'p', jobId: 'other' }],
    ['the ids of the workflow id if its own are invalid', { ...valid, jobId: '..' }, { projectId: 'p', jobId: 'j' }],
    ['the ids of the workflow id if it has none', undefined, { projectId: 'p', jobId: 'j' }],
  ])('that is refused shows %s', async (_name, input, ids) => {
    const workflowId = `follow-up/p/j/refused-${++count}-${Date.now()}`;
    const handle = await stack.client.workflow.start('followUp', {
      taskQueue: stack.taskQueue,
      workflowId,
      args: input === undefined ? [] : [input],
    });
    await expect(handle.result()).rejects.toMatchObject({ cause: { type: 'InvalidInput' } });
    const { typedSearchAttributes } = await handle.describe();
    expect(typedSearchAttributes.get(SearchAttribute.projectId)).toBe(ids.projectId);
    expect(typedSearchAttributes.get(SearchAttribute.jobId)).toBe(ids.jobId);
    expect(typedSearchAttributes.get(SearchAttribute.state)).toBe('not-sent');
    expect(await stack.followUps.handle(workflowId).progress()).toMatchObject({
      ...ids,
      state: 'not-sent',
      failure: { type: 'InvalidInput', delivered: 'no' },
    });
  });

  test('may have a second argument, which is ignored', async () => {
    const { projectId, jobId, ...rest } = makeJob();
    const handle = await stack.client.workflow.start('followUp', {
      taskQueue: stack.taskQueue,
      workflowId: `follow-up/${projectId}/${jobId}/k`,
      args: [
        { projectId, jobId, ...rest },
        { state: 'polling', polls: 1_000 },
      ],
    });
    expect(await handle.result()).toMatchObject({ status: 'completed', delivery: 'sent' });
    expect(accepted(projectId)).toBe(1);
  });
});
