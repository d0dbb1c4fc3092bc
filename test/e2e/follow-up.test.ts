import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { StartedFollowUp } from '../../src/client/index.js';
import { SearchAttribute } from '../../src/contract/index.js';
import type { NewJob } from '../../src/simulator/index.js';
import { eventually } from '../support/eventually.js';
import { failureOf } from '../support/failure-of.js';
import { type Project, reaches, useStack } from '../support/project.js';
import { schemaCheck } from '../support/schema-check.js';
import { FAST } from '../support/stack.js';

const tested = useStack();
const { newProject } = tested;

/** Starts a follow-up by its name on the wire, as a client in another language does. */
const startByName = (workflowId: string, ...args: unknown[]) =>
  tested.stack.client.workflow.start('followUp', { workflowId, taskQueue: tested.stack.taskQueue, args });

describe.concurrent('a follow-up', () => {
  test('is delivered once, ends with its pull request, and gives a second start with its key the same result', async () => {
    const project = newProject();
    project.addEndlessJob();
    const followUp = await project.start('job', { key: 'once' });
    await eventually('the agent was seen at work', async () => (await followUp.progress()).jobStatus === 'active');
    project.endTurn();
    const [result] = await project.endWell([followUp]);
    const { prLink } = tested.stack.simulator.job(project.id, 'job') ?? {};
    expect(result).toMatchObject({ observedActive: true, prLink, prLinkChanged: true });
    const again = await project.start('job', { key: 'once', prompt: 'something else' });
    expect(again).toMatchObject({ alreadyStarted: true, inputDiffers: true });
    expect(await again.result()).toEqual(result);
    expect(project.ledger).toHaveLength(1);
  });

  test.each<[string, Partial<NewJob> | undefined, string, object]>([
    ['completes', {}, 'completed', { status: 'completed', prLinkChanged: true }],
    ['completes without a link', { behaviour: { prLinkAfterTurn: 'none' } }, 'completed', { prLink: null }],
    ['fails', { behaviour: { outcome: 'failed' } }, 'job-failed', { status: 'failed' }],
    ['is archived during its turn', { behaviour: { outcome: 'archived' } }, 'archived', { status: 'archived' }],
    ['was archived before', { status: 'archived' }, 'not-sent', { type: 'JobArchived', delivered: 'no' }],
    ['does not exist', undefined, 'not-sent', { type: 'JobNotFound', delivered: 'no' }],
  ])('gives answers that match their JSON Schemas if its job %s', async (_, job, state, end) => {
    const project = newProject();
    if (job) project.addJob('job', job);
    const input = { projectId: project.id, jobId: 'job', prompt: 'Add tests.', lane: null, ...FAST };
    expect(schemaCheck('follow-up-input')(input)).toEqual([]);
    const workflow = await startByName(`follow-up/${project.id}/job/k`, input);
    const isProgress = schemaCheck('follow-up-progress');
    expect(isProgress(await workflow.query('progress'))).toEqual([]);
    if (state === 'not-sent') {
      const { type, message, ...details } = await failureOf(workflow.result());
      expect({ type, ...details }).toMatchObject(end);
      expect(message).toBeTruthy();
      expect(schemaCheck('follow-up-failure')(details)).toEqual([]);
    } else {
      const result: unknown = await workflow.result();
      expect(result).toMatchObject(end);
      expect(schemaCheck('follow-up-result')(result)).toEqual([]);
    }
    const ended = await workflow.query('progress');
    expect(isProgress(ended)).toEqual([]);
    expect(isProgress({ ...(ended as object), state: 'unknown-state' })).not.toEqual([]);
    expect(ended).toMatchObject({ state });
    const followUp = tested.stack.followUps.handle(workflow.workflowId);
    expect(await followUp.describe()).toMatchObject({ state, status: state === 'not-sent' ? 'failed' : 'completed' });
    expect(project.delivered).toHaveLength(state === 'not-sent' ? 0 : 1);
  });

  test('shows no status and no pull request before its send, although its job has both', async () => {
    const project = newProject();
    project.addJob('job', { status: 'active', behaviour: { neverEnds: true } });
    const followUp = await project.start();
    // Not its progress, which the budget can know before the follow-up's first workflow task is over.
    const summary = await eventually('its own record says that it waits for the job', async () => {
      const latest = await followUp.describe();
      expect(latest).toMatchObject({ state: 'waiting-for-job' });
      return latest;
    });
    expect(summary).not.toHaveProperty('jobStatus');
    expect(summary).not.toHaveProperty('prLink');
    await followUp.cancel();
    await expect(followUp.result()).rejects.toMatchObject({ delivered: 'no' });
    expect(await followUp.describe()).toMatchObject({ status: 'cancelled', state: 'cancelled' });
  });

  test('is sent again, once, if its message was lost and an operator says so', async () => {
    const project = newProject();
    project.addEndlessJob();
    tested.stack.simulator.failNext({ method: 'POST', projectId: project.id, when: 'before', how: 'reset' });
    const followUp = await project.start('job', { settleTime: '10m' });
    await reaches(followUp, 'reconciling');
    await expect(followUp.resolve('maybe' as 'sent')).rejects.toThrow('must be sent or notSent');
    await followUp.resolve('notSent');
    await reaches(followUp, 'polling');
    await expect(followUp.resolve('sent')).rejects.toThrow('it is polling');
    expect(project.ledger.map(({ accepted }) => accepted)).toEqual([false, true]);
    await followUp.cancel();
    await expect(followUp.result()).rejects.toMatchObject({ type: 'Cancelled', delivered: 'yes' });
  });

  test('is sent although the service refuses other messages of its project, which show the refusal', async () => {
    const project = newProject();
    const names = Array.from({ length: 12 }, (_, index) => (index % 3 === 0 ? `bad-${index}` : `good-${index}`));
    const page = '<html>Blocked by the firewall</html>';
    for (const jobId of names.filter((name) => name.startsWith('bad'))) {
      const how = { status: 403, error: page, headers: { 'content-type': 'text/html' } };
      tested.stack.simulator.failNext({ method: 'POST', projectId: project.id, jobId, times: 1_000, how });
    }
    const followUps = await Promise.all(names.map((name) => project.start(name)));
    const isGood = (_: unknown, index: number) => index % 3 !== 0;
    await Promise.all(followUps.filter(isGood).map((followUp) => followUp.result()));
    const bad = followUps[0]!;
    const progress = await reaches(bad, 'blocked', 'credentials');
    expect(progress.lastError?.message).toContain(page);
    expect((await project.status()).refused).toEqual([
      { reason: 'credentials', statusCode: 403, messages: 4, of: 12, accepted: 8 },
    ]);
    await Promise.all(followUps.filter((each, index) => !isGood(each, index)).map((followUp) => followUp.cancel()));
  });

  test('does not count as delivered if its message is answered with 200 and an error', async () => {
    const project = newProject();
    const how = { status: 200, error: 'agent is busy, message not accepted' };
    tested.stack.simulator.failNext({ method: 'POST', projectId: project.id, when: 'before', how });
    project.addJob('job');
    const followUp = await project.start('job', { settleTime: '10m' });
    const progress = await reaches(followUp, 'reconciling');
    expect(progress.lastError?.message).toBe('HTTP 200: agent is busy, message not accepted');
    await followUp.resolve('notSent');
    expect(await followUp.result()).toMatchObject({ status: 'completed', delivery: 'sent' });
    expect(project.delivered).toEqual(['job']);
  });

  test('is sent once after a gateway has answered 404 to its reads and its message for a while', async () => {
    const project = newProject();
    await project.startBudget();
    const missing = { projectId: project.id, how: { status: 404, error: 'default backend' } };
    tested.stack.simulator.failNext({ method: 'GET', times: 20, ...missing });
    tested.stack.simulator.failNext({ method: 'POST', ...missing });
    const followUp = await project.start();
    const progress = await reaches(followUp, 'blocked', 'service');
    expect(progress.lastError?.message).toBe('HTTP 404: default backend');
    await project.endWell([followUp]);
    expect(project.ledger.map(({ accepted }) => accepted)).toEqual([false, true]);
  });

  /** Starts 15 follow-ups. Each has asked before the next one starts: until then, the budget does not know of it. */
  const startInTurn = async (project: Project): Promise<StartedFollowUp[]> => {
    const followUps: StartedFollowUp[] = [];
    for (let number = 10; number < 25; number += 1) {
      const followUp = await project.start('job', { prompt: `message ${number}` });
      followUps.push(followUp);
      await eventually('it waits', async () =>
        /^(paused|job-busy)$/.test((await followUp.progress()).waitReason ?? ''),
      );
    }
    return followUps;
  };

  test('is sent in the order in which follow-ups to its job started, even if the line for the job was full', async () => {
    const project = newProject();
    project.addJob();
    await project.budget.pause();
    const followUps = await startInTurn(project);
    const all = await Promise.all(followUps.map((followUp) => followUp.progress()));
    const expected = all.map((_, index) => (index < 10 ? 'paused' : 'job-busy'));
    expect(all.map(({ waitReason }) => waitReason)).toEqual(expected);
    await project.budget.resume();
    await project.endWell(followUps);
    const prompts = project.ledger.map(({ prompt }) => prompt);
    expect(prompts).toEqual([...prompts].sort());
  });

  test('is sent in the order in which follow-ups to its job started if something else keeps the job busy', async () => {
    const project = newProject();
    project.addJob();
    tested.stack.simulator.changeJob({ projectId: project.id, jobId: 'job', status: 'active' });
    const followUps = await startInTurn(project);
    project.endTurn();
    await project.endWell(followUps);
    const prompts = project.ledger.map(({ prompt }) => prompt);
    expect(prompts).toEqual([...prompts].sort());
  });

  test('costs at most 24 events once its budget runs', { tags: 'long' }, async () => {
    const project = newProject();
    await project.startBudget();
    const followUp = await project.start();
    await followUp.result();
    expect((await project.workflow(followUp).fetchHistory()).events?.length).toBeLessThanOrEqual(24);
  });

  test('shows its state in search attributes, its summary and its details', async () => {
    const project = newProject();
    const followUp = await project.start();
    const { prLink, sentAt } = await followUp.result();
    const description = await project.workflow(followUp).describe();
    const values = description.typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]);
    expect(Object.fromEntries(values)).toMatchObject({
      [SearchAttribute.projectId.name]: project.id,
      [SearchAttribute.jobId.name]: 'job',
      [SearchAttribute.state.name]: 'completed',
      [SearchAttribute.jobStatus.name]: 'completed',
      [SearchAttribute.prLink.name]: prLink,
    });
    const lastSendAtMs = description.typedSearchAttributes.get(SearchAttribute.lastSendAt)?.getTime();
    expect(lastSendAtMs).toBeGreaterThan(Date.parse(sentAt) - 30_000);
    expect(lastSendAtMs).toBeLessThanOrEqual(Date.parse(sentAt));
    expect(await description.staticSummary()).toContain('job');
    const { definition, currentDetails } = await project
      .workflow(followUp)
      .query<{ definition: unknown; currentDetails: string }>('__temporal_workflow_metadata');
    expect(definition).toBeDefined();
    expect(currentDetails).toContain('**completed**');
    expect(currentDetails).toContain(`<${prLink}>`);
    const { events } = await project.workflow(followUp).fetchHistory();
    const steps = events?.filter(
      (each) => each.activityTaskScheduledEventAttributes ?? each.timerStartedEventAttributes,
    );
    const summaries = steps?.map(({ userMetadata }) => Buffer.from(userMetadata?.summary?.data ?? []).toString());
    expect(summaries).not.toContain('');
    expect(summaries).toEqual(expect.arrayContaining(['"send message 1 to job"', '"watch job until end"']));
    const listed = await eventually('the follow-up is listed by its state', async () => {
      const found: string[] = [];
      const query = `FollowUpState = 'completed' AND FollowUpProjectId = '${project.id}'`;
      for await (const { workflowId } of tested.stack.client.workflow.list({ query })) found.push(workflowId);
      return found.length > 0 ? found : undefined;
    });
    expect(listed).toEqual([followUp.workflowId]);
  });
});

test('the saved views in the docs are queries that Temporal accepts', async () => {
  const page = readFileSync(new URL('../../docs/how-to/temporal-ui.md', import.meta.url), 'utf8');
  const queries = [...page.matchAll(/^\| [^|]+\| `(WorkflowType = [^`]+)`/gm)].map(([, query]) => query ?? '');
  expect(queries).toHaveLength(7);
  for (const query of queries) {
    expect((await tested.stack.client.workflow.count(query)).count).toBeGreaterThanOrEqual(0);
  }
});

describe.concurrent('an input', () => {
  const valid = { projectId: 'p', jobId: 'j', prompt: 'hello' };
  const own = { projectId: 'p', jobId: 'other' };
  /** The ids that a refused follow-up shows: its own if they are valid, otherwise those of its workflow id. */
  const named = { projectId: 'p', jobId: 'j' };
  test.each<[string, unknown, string[], object?]>([
    ['is missing', undefined, ['']],
    ['is an empty object', {}, ['projectId', 'jobId', 'prompt']],
    [
      'has a path for a project and a bad duration',
      { ...valid, projectId: 'a/b', settleTime: -1 },
      ['projectId', 'settleTime'],
    ],
    ['belongs to another workflow id', { ...valid, ...own }, ['workflowId'], own],
    [
      'belongs to another workflow id and has a bad field',
      { ...valid, ...own, prompt: '' },
      ['prompt', 'workflowId'],
      own,
    ],
  ])('is refused at once, with the name of every bad field, if it %s', async (name, input, fields, ids = named) => {
    const workflow = await startByName(`follow-up/p/j/${newProject().id}`, ...(input === undefined ? [] : [input]));
    const failure = { type: 'InvalidInput', delivered: 'no' };
    const { issues, ...refusal } = (await failureOf(workflow.result())) as { issues?: { field: string }[] };
    expect({ ...refusal, fields: issues?.map(({ field }) => field) }).toMatchObject({ ...failure, fields });
    const { typedSearchAttributes } = await workflow.describe();
    const shown = { projectId: SearchAttribute.projectId, jobId: SearchAttribute.jobId };
    const attributes = Object.entries(shown).map(([field, key]) => [field, typedSearchAttributes.get(key)]);
    expect(Object.fromEntries(attributes), name).toEqual(ids);
    expect(typedSearchAttributes.get(SearchAttribute.state)).toBe('not-sent');
    const progress = await tested.stack.followUps.handle(workflow.workflowId).progress();
    expect(progress).toMatchObject({ ...ids, state: 'not-sent', failure });
  });
});
