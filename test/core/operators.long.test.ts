import { WorkflowUpdateFailedError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { describe, expect, test } from 'vitest';
import { resolveDeliveryUpdate } from '../../src/contract/index.js';
import { setLimitUpdate } from '../../src/contract/budget.js';
import { eventually } from '../support/eventually.js';
import { failureOf } from '../support/failure-of.js';
import { pendingActivity, seenOf } from './support/activity-buttons.js';
import { operatedCore, type Project, progressOf, reaches, shownState } from './support/operated-core.js';

const operated = operatedCore({ sendTimeoutMs: 3_000, leaseMs: 8_000, drainMs: 1_000 });
const { newProject } = operated;

/** The failure of a refused update. */
async function refusalOf(update: Promise<unknown>): Promise<ApplicationFailure> {
  const error: unknown = await update.then(
    () => new Error('it was accepted'),
    (reason: unknown) => reason,
  );
  if (error instanceof WorkflowUpdateFailedError && error.cause instanceof ApplicationFailure) return error.cause;
  throw error;
}

describe.concurrent('an order to change the limit', () => {
  const bad: [input: unknown, words: string[]][] = [
    [{ limit: -1 }, ['limit', 'must be from 0', '-1']],
    [{ limit: 1.5 }, ['limit', 'whole number', '1.5']],
    [{ limit: '5' }, ['limit', 'whole number', '"5"']],
    [{ window: '1ms' }, ['window', '1ms', '1s']],
    [{ reserve: 5, limit: 5 }, ['reserve', 'must be below limit']],
    [{ reserve: 100 }, ['reserve', 'must be below limit', '100']],
    [{ limits: 5 }, ['limits']],
    [{}, ['at least one']],
    [null, ['at least one']],
    [7, ['7']],
    [{ limit: 1_001 }, ['limit', 'FOLLOW_UP_BUDGET_MAX_LIMIT', '1000', '1001']],
  ];
  test.each(bad)('with %j is refused, with the field, the value and the rule', async (input, words) => {
    const project = newProject();
    await project.openBudget();
    // The worker's ceiling comes with the first ask.
    await project.expectGoodEnds([await project.start()]);
    const update = project.budget.executeUpdate(setLimitUpdate, { args: [input as object] });
    const { type, message } = await refusalOf(update);
    expect(type).toBe('InvalidInput');
    for (const word of words) expect(message).toContain(word);
    expect(await project.status()).toMatchObject({ limit: 100, windowMs: 3_600_000, reserve: 0 });
  });

  test('of the window alone is accepted, also if limit and reserve are above what the worker allows by now', async () => {
    const project = newProject();
    await project.openBudget({ limit: 5_000, reserve: 2_000 });
    await project.expectGoodEnds([await project.start()]);
    const [before, after] = [await project.status(), await project.setLimit({ window: '2h' })];
    expect(after).toMatchObject({ limit: before.limit, reserve: before.reserve, windowMs: 7_200_000 });
  });

  test('takes effect at once, and answers with the status', async () => {
    const project = newProject();
    const followUps = await project.openBacklog(3, { limit: 1 });
    await project.resume();
    await project.deliveries(1);
    expect(await project.setLimit({ limit: 3 })).toMatchObject({ limit: 3 });
    await project.expectGoodEnds(followUps, { limit: 3, windowMs: 3_600_000 });
  });
});

test.concurrent('a pause with a note holds every follow-up, and resume lets all go at once', async () => {
  const project = newProject();
  await project.openBudget();
  const { paused } = await project.budget.executeUpdate<{ paused: unknown }, [object]>('pause', {
    args: [{ note: 'a release is under way' }],
  });
  expect(paused).toMatchObject({ reasons: ['operator'], note: 'a release is under way' });
  const followUps = await project.startMany(3);
  for (const followUp of followUps) {
    const { pause } = await reaches(followUp, 'blocked', 'paused');
    expect(pause).toMatchObject({ by: 'operator', note: 'a release is under way' });
  }
  expect(await shownState(followUps[0] ?? project.budget)).toBe('blocked');
  expect(project.ledger).toEqual([]);
  const { waitingTotal, unsettled } = await project.resume();
  expect({ waitingTotal, unsettled }).toEqual({ waitingTotal: 0, unsettled: 3 });
  await project.expectGoodEnds(followUps);
});

/** A follow-up whose message was taken or not, and whose connection was then dropped. */
async function startDropped(project: Project, when: 'before' | 'after', more: object = {}) {
  await project.openBudget();
  project.addEndlessJob('job');
  operated.core.simulator.failNext({ method: 'POST', projectId: project.id, when, how: 'reset' });
  return project.start('job', { settleTime: '10m', ...more });
}

describe.concurrent('a follow-up that does not know whether its message was delivered', () => {
  test('finds that out by itself when the job shows it', async () => {
    const project = newProject();
    const followUp = await startDropped(project, 'after');
    await reaches(followUp, 'polling');
    project.endTurn('job');
    const [result] = await project.expectGoodEnds([followUp]);
    expect(result).toMatchObject({ delivery: 'inferred' });
  });

  test('takes the word of an operator that it was, and sends nothing again', async () => {
    const project = newProject();
    const followUp = await startDropped(project, 'before');
    await reaches(followUp, 'reconciling');
    expect(await shownState(followUp)).toBe('reconciling');
    await followUp.executeUpdate(resolveDeliveryUpdate, { args: ['sent'] });
    await reaches(followUp, 'polling');
    await followUp.cancel();
    expect(await failureOf(followUp.result())).toMatchObject({ type: 'Cancelled', delivered: 'unknown' });
    expect(project.ledger.length).toBe(1);
  });

  test('takes the word of an operator that it was not, and sends it again', async () => {
    const project = newProject();
    const followUp = await startDropped(project, 'before');
    await reaches(followUp, 'reconciling');
    await followUp.executeUpdate(resolveDeliveryUpdate, { args: ['notSent'] });
    await reaches(followUp, 'polling');
    project.endTurn('job');
    const [result] = await project.expectGoodEnds([followUp]);
    expect(result).toMatchObject({ delivery: 'sent' });
    expect(project.ledger.map(({ accepted }) => accepted)).toEqual([false, true]);
  });

  test('refuses any other word, and any word while it is not in doubt', async () => {
    const project = newProject();
    const followUp = await startDropped(project, 'before');
    await reaches(followUp, 'reconciling');
    const say = (word: unknown) => followUp.executeUpdate(resolveDeliveryUpdate, { args: [word as 'sent'] });
    for (const word of ['maybe', null, {}, 7]) {
      expect((await refusalOf(say(word))).message).toContain('must be sent or notSent');
    }
    await say('notSent');
    await reaches(followUp, 'polling');
    expect((await refusalOf(say('sent'))).message).toContain('it is polling');
  });

  test('ends as DeliveryUnknown when nobody can tell', async () => {
    const project = newProject();
    const followUp = await startDropped(project, 'before', { settleTime: '1s' });
    expect(await failureOf(followUp.result())).toMatchObject({ type: 'DeliveryUnknown', delivered: 'unknown' });
    expect(project.ledger.length).toBe(1);
    expect(await shownState(followUp)).toBe('delivery-unknown');
  });
});

test.concurrent('pollNow makes a watch that sleeps for an hour look at once', async () => {
  const project = newProject();
  project.addEndlessJob('job');
  const followUp = await project.start('job', { poll: { initialInterval: '1h', maxInterval: '1h' }, settleTime: 0 });
  await reaches(followUp, 'polling');
  project.endTurn('job');
  const activity = await pendingActivity(followUp, 'watchJob');
  expect(seenOf(activity)?.polls ?? 0).toBe(0);
  await followUp.signal('pollNow');
  await eventually('it has looked', async () => {
    const { polls, state } = await progressOf(followUp);
    return polls > 0 || state === 'completed' || (seenOf(await pendingActivity(followUp, 'watchJob'))?.polls ?? 0) > 0;
  });
});
