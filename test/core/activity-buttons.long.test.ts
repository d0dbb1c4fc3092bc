import { describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { buttons, completeByHand, pendingActivity, type Press } from './support/activity-buttons.js';
import { operatedCore, reaches } from './support/operated-core.js';

const operated = operatedCore({ sendTimeoutMs: 6_000, leaseMs: 10_000, drainMs: 1_000 });
const { newProject } = operated;

describe.concurrent('a send on its way', () => {
  /** A grant that comes at once, so that the follow-up itself knows the job before its send. */
  async function sendAndPress(press: (press: Press) => Promise<unknown>) {
    const project = newProject();
    await project.openBudget();
    project.addEndlessJob('job');
    const letGo = project.holdMessages('job', 'received');
    const followUp = await project.start();
    const activity = await pendingActivity(followUp, 'sendMessage');
    await press({ client: operated.core.client, followUp, activity });
    return { project, followUp, letGo };
  }

  test.each(Object.entries(buttons))('that is %s delivers once, and finds that out', async (_, press) => {
    const { project, followUp, letGo } = await sendAndPress(press);
    letGo();
    await reaches(followUp, 'polling');
    project.endTurn('job');
    const [result] = await project.expectGoodEnds([followUp]);
    expect(['sent', 'inferred']).toContain(result?.delivery);
    expect(project.ledger.length).toBe(1);
  });

  const typed = (press: Press) => completeByHand(press, { outcome: 'notSent', grant: 'run/1' });
  test.each([...Object.entries(buttons), ['completed by hand as not sent', typed] as const])(
    'that is %s and hangs is not sent again, and its late arrival is noticed',
    async (_, press) => {
      const { project, followUp, letGo } = await sendAndPress(press);
      await reaches(followUp, 'reconciling');
      letGo();
      await reaches(followUp, 'polling');
      project.endTurn('job');
      const [result] = await project.expectGoodEnds([followUp]);
      expect(result).toMatchObject({ delivery: 'inferred' });
      expect(project.ledger.length).toBe(1);
    },
  );
});

describe.concurrent('a watch of a job at work', () => {
  test.each(Object.entries(buttons))('that is %s goes on to the end of the turn', async (_, press) => {
    const project = newProject();
    project.addEndlessJob('job');
    const followUp = await project.start();
    const activity = await pendingActivity(followUp, 'watchJob');
    await press({ client: operated.core.client, followUp, activity });
    await pendingActivity(followUp, 'watchJob');
    await reaches(followUp, 'polling');
    project.endTurn('job');
    const [result] = await project.expectGoodEnds([followUp]);
    expect(result).toMatchObject({ delivery: 'sent' });
  });

  const forged: Record<string, unknown> = {
    'an end without a job': { kind: 'ended', seen: { polls: 1 } },
    'an end without a status': { kind: 'ended', job: {}, seen: { polls: 1 } },
    'an unknown kind': { kind: 'rubbish', seen: { polls: 1 } },
    'an end without what was seen': { kind: 'ended', job: { status: 'completed' } },
  };
  test.each(Object.entries(forged))('that is completed by hand with %s goes on', async (_, result) => {
    const project = newProject();
    project.addEndlessJob('job');
    const followUp = await project.start();
    const activity = await pendingActivity(followUp, 'watchJob');
    await completeByHand({ client: operated.core.client, followUp, activity }, result);
    await pendingActivity(followUp, 'watchJob');
    project.endTurn('job');
    const [own] = await project.expectGoodEnds([followUp]);
    expect(own).toMatchObject({ delivery: 'sent', prLinkChanged: true });
  });
});

describe.concurrent('an ask that the server repeats', () => {
  const forged: Record<string, unknown> = {
    'an unknown kind': { kind: 'rubbish' },
    'an answer of an unknown kind': { kind: 'asked', answer: { kind: 'rubbish' }, startToCloseMs: 1 },
    'a grant without anything': { kind: 'asked', answer: { kind: 'granted' }, startToCloseMs: 1_000 },
    'a job at work that is missing': { kind: 'atWork' },
  };
  const { 'failed by hand': refused, ...others } = buttons;
  const presses = {
    ...others,
    ...Object.fromEntries(
      Object.entries(forged).map(([name, result]) => [
        `completed by hand with ${name}`,
        (press: Press) => completeByHand(press, result),
      ]),
    ),
  };
  test('that is failed by hand goes on, and the message is sent once', async () => {
    const project = newProject();
    await project.openBudget();
    project.addJob('job');
    // Each hangs for 5 s, and the server takes a failure by hand only while an attempt runs.
    operated.core.simulator.failNext({ method: 'GET', projectId: project.id, how: 'hang', times: 3 });
    const followUp = await project.start();
    const activity = await pendingActivity(followUp, 'askForSlot');
    await eventually('it is failed', async () => {
      await refused?.({ client: operated.core.client, followUp, activity });
      return true;
    });
    await project.expectGoodEnds([followUp]);
  });

  test.each(Object.entries(presses))('that is %s goes on, and the message is sent once', async (_, press) => {
    const project = newProject();
    await project.openBudget();
    await project.budget.terminate();
    const followUp = await project.start();
    await reaches(followUp, 'blocked', 'budget-stopped');
    const activity = await pendingActivity(followUp, 'askForSlot');
    await press({ client: operated.core.client, followUp, activity });
    await project.openBudget();
    await followUp.signal('pollNow');
    const [result] = await project.expectGoodEnds([followUp]);
    expect(result).toMatchObject({ delivery: 'sent' });
    expect(project.ledger.length).toBe(1);
  });
});
