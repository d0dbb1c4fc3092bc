import { describe, expect, test } from 'vitest';
import { resetWorkflow } from '../support/buttons.js';
import { type FollowUpResult, resolveDeliveryUpdate } from '../../src/contract/index.js';
import type { Ask } from '../../src/contract/protocol.js';
import { failureOf } from '../support/failure-of.js';
import { type FollowUpHandle, operatedCore, reaches } from './support/operated-core.js';

// A message may take longer than the tests hold it. Without a report, a follow-up decides after lease and drain.
const operated = operatedCore({ sendTimeoutMs: 6_000, leaseMs: 10_000, drainMs: 1_000 });
const { newProject } = operated;

const reset = ({ workflowId }: FollowUpHandle, point: 'first' | 'last') =>
  resetWorkflow(operated.core.client, workflowId, point);

describe.concurrent.each(['first', 'last'] as const)('a follow-up that is reset to its %s task', (point) => {
  test('while it is blocked before its send is sent once', async () => {
    const project = newProject();
    await project.openBacklog(1);
    const followUp = await project.start('reset');
    await reaches(followUp, 'blocked', 'paused');
    await reset(followUp, point);
    await project.resume();
    expect(await followUp.result()).toMatchObject({ status: 'completed', delivery: 'sent' });
    expect(project.delivered.filter((jobId) => jobId === 'reset')).toEqual(['reset']);
  });

  test('while it waits in line for a slot keeps its place and is sent once', async () => {
    const project = newProject();
    await project.openBudget({ limit: 1 });
    const first = await project.start('first');
    await project.deliveries(1);
    const second = await project.start('second');
    await project.waiting(1);
    const third = await project.start('third');
    await project.waiting(2);
    await reset(second, point);
    await reaches(second, 'waiting-for-budget', 'slot');
    await project.setLimit({ window: '1s' });
    await project.expectGoodEnds([first, second, third], { limit: 1, windowMs: 1_000 });
    expect(project.delivered).toEqual(['first', 'second', 'third']);
  });

  test('while its message is on its way is sent once, and takes an operator at their word', async () => {
    const project = newProject();
    const letGo = project.holdMessages('job', 'recorded');
    project.addEndlessJob('job');
    const followUp = await project.start('job', { settleTime: '10m' });
    await project.deliveries(1);
    await reset(followUp, point);
    letGo();
    // Nobody can tell: the run that knew the job before the send is closed.
    await reaches(followUp, 'reconciling');
    await followUp.executeUpdate(resolveDeliveryUpdate, { args: ['sent'] });
    await reaches(followUp, 'polling');
    await followUp.cancel();
    expect(await failureOf(followUp.result())).toMatchObject({ type: 'Cancelled', delivered: 'unknown' });
    expect(project.ledger.length).toBe(1);
  });

  test('after its send, while it watches its job, still says that it was sent', async () => {
    const project = newProject();
    project.addEndlessJob('job');
    const followUp = await project.start();
    await reaches(followUp, 'polling');
    await reset(followUp, point);
    await reaches(followUp, 'polling');
    project.endTurn('job');
    const [result] = await project.expectGoodEnds([followUp]);
    expect(result).toMatchObject({ delivery: 'sent' });
  });

  test('after its end gives a result again, and sends nothing', async () => {
    const project = newProject();
    const followUp = await project.start();
    const { prLink, sentAt } = (await followUp.result()) as FollowUpResult;
    await reset(followUp, point);
    const [again] = await project.expectGoodEnds([followUp]);
    expect(again).toMatchObject({ delivery: 'sent', prLink });
    expect(Math.abs(Date.parse(again?.sentAt ?? '') - Date.parse(sentAt))).toBeLessThan(1_000);
  });

  test("after its end, when its job has gone on to another message, does not take that one's end for its own", async () => {
    const project = newProject();
    const first = await project.start('job');
    const own = (await first.result()) as FollowUpResult;
    const second = await project.start('job');
    const result = await second.result();
    await reset(first, point);
    // The last task has the end of its own turn in its history; the first one has not.
    if (point === 'last') expect(await first.result()).toMatchObject({ prLink: own.prLink, delivery: 'sent' });
    else expect(await failureOf(first.result())).toMatchObject({ type: 'Closed', delivered: 'yes' });
    expect(await second.result()).toEqual(result);
    expect(project.delivered).toEqual(['job', 'job']);
  });
});

test('a run that a retry policy starts asks as one that may have sent since the first run began', async () => {
  const project = newProject();
  await project.openBacklog(1);
  const { client, taskQueue } = operated.core;
  project.addJob('job');
  const startedAtMs = Date.now();
  const input = { projectId: project.id, jobId: 'job', prompt: 'go on' };
  const followUp = await client.workflow.start('followUp', {
    ...{ taskQueue, workflowId: `follow-up/${project.id}/job/retried`, args: [input] },
    ...{ workflowRunTimeout: '3s', retry: { initialInterval: '1s', maximumAttempts: 2 } },
  });
  await expect(followUp.result()).rejects.toThrow();
  const { events } = await operated.core.budget(project.id).fetchHistory();
  const asks = (events ?? []).flatMap(({ workflowExecutionUpdateAcceptedEventAttributes: update }) => {
    const [payload] = update?.acceptedRequest?.input?.args?.payloads ?? [];
    const ask = payload?.data ? (JSON.parse(Buffer.from(payload.data).toString()) as Partial<Ask>) : {};
    return ask.workflowId === followUp.workflowId ? [ask] : [];
  });
  expect(asks).toMatchObject([{ mayHaveSent: false }, { mayHaveSent: true }]);
  expect(asks[1]?.startedAtMs).toBeLessThanOrEqual(startedAtMs);
  expect(asks[0]?.startedAtMs).toBeGreaterThanOrEqual(startedAtMs - 1_000);
});
