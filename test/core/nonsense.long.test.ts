import { expect, test } from 'vitest';
import type { WorkflowHandle } from '@temporalio/client';
import { type FollowUpHandle, operatedCore, reaches } from './support/operated-core.js';

const { newProject } = operatedCore();

const nobody = 'follow-up/another/job/key';
const nonsense: unknown[] = [
  ...[null, 7, -1, 'x', '', true, [], [[]], {}, { kind: null }, { kind: 'rubbish' }, { kind: 'granted' }],
  ...[{ kind: 'waiting', runId: 'x' }, { kind: 'end' }, { kind: 'settle', workflowId: nobody }],
  { kind: 'end', workflowId: nobody, runId: 'x', turnUntilMs: 'soon' },
  { kind: 'end', workflowId: nobody, runId: 'x', lastTurn: { status: 1 } },
  { kind: 'settle', workflowId: nobody, runId: 'x', sendNumber: 1, outcome: 'sent', atMs: 9e99 },
  { kind: 'settle', workflowId: nobody, runId: 'x', sendNumber: 0, outcome: 'lost', atMs: -1 },
  { kind: 'granted', runId: 'x', sendNumber: 1, grantedAtMs: 1, leaseMs: -1, overAtMs: 'never' },
  // Whole, but of another run.
  { kind: 'granted', runId: 'x', sendNumber: 1, grantedAtMs: Date.now(), leaseMs: 9_000, overAtMs: Date.now() + 9_000 },
  { kind: 'waiting', runId: 'x', sendNumber: 1, reason: 'slot', position: 5, expectedAtMs: 1e300 },
  { workflowId: nobody, runId: 'x', sendNumber: 1, lane: 'fast' },
  { limit: -1, window: 'soon', reserve: [] },
  JSON.parse('{"__proto__": {"kind": "end"}, "constructor": 1, "kind": "end", "workflowId": "__proto__"}'),
];

/** Sends all of it by every name, and expects that updates refuse it. Returns how many there were. */
async function sendNonsense(workflow: WorkflowHandle, signals: string[], updates: string[]): Promise<number> {
  for (const signal of signals) {
    await workflow.signal(signal);
    await Promise.all(nonsense.map((each) => workflow.signal(signal, each)));
  }
  for (const update of updates) {
    for (const each of nonsense) {
      const isRefused = await workflow.executeUpdate(update, { args: [each] }).then(
        () => false,
        () => true,
      );
      expect(isRefused, `${update} ${JSON.stringify(each)}`).toBe(true);
    }
  }
  return (signals.length + updates.length) * nonsense.length;
}

test.concurrent('a budget ignores signals and refuses updates that make no sense', async () => {
  const project = newProject();
  const followUps = await project.openBacklog(3, { limit: 2 });
  const signals = ['tell', 'budgetAnswer', 'wake', 'noSuchSignal'];
  const count = await sendNonsense(project.budget, signals, ['ask', 'setLimit', 'noSuchUpdate', 'resolveDelivery']);
  expect(count).toBeGreaterThanOrEqual(180);
  const { used, unsettled, waitingTotal } = await project.status();
  expect({ used, unsettled, waitingTotal }).toEqual({ used: 0, unsettled: 0, waitingTotal: 3 });
  await project.resume();
  await project.deliveries(2);
  await project.setLimit({ limit: 3 });
  await project.expectGoodEnds(followUps);
});

test.concurrent('an ask that names the follow-up of another project is refused', async () => {
  const project = newProject();
  await project.openBudget();
  const ask = {
    ...{ workflowId: nobody, runId: 'run', sendNumber: 1, lane: 'interactive', messageTag: 'x', mayHaveSent: false },
    ...{ startedAtMs: Date.now(), leaseMs: 1_000, drainMs: 1_000, maxLimit: 100 },
  };
  await expect(project.budget.executeUpdate('ask', { args: [ask] })).rejects.toThrow();
  expect((await project.status()).used).toBe(0);
});

const moments: Record<string, (followUp: FollowUpHandle) => Promise<unknown>> = {
  'in line': (followUp) => reaches(followUp, 'blocked', 'paused'),
  'at its watch': (followUp) => reaches(followUp, 'polling'),
};
test.concurrent.each(Object.entries(moments))(
  'a follow-up %s ignores signals and refuses updates that make no sense',
  async (moment, isThere) => {
    const project = newProject();
    await project.openBudget();
    project.addEndlessJob('job');
    if (moment === 'in line') await project.pause();
    const followUp = await project.start();
    await isThere(followUp);
    await sendNonsense(followUp, ['budgetAnswer', 'pollNow', 'wake', 'tell'], ['resolveDelivery', 'ask']);
    await project.resume();
    await reaches(followUp, 'polling');
    project.endTurn('job');
    const [result] = await project.expectGoodEnds([followUp]);
    expect(result).toMatchObject({ delivery: 'sent' });
    expect(project.ledger.length).toBe(1);
  },
);
