import { describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import {
  type FollowUpHandle,
  operatedCore,
  progressOf,
  type Project,
  reaches,
  shownState,
} from './support/operated-core.js';

const operated = operatedCore();
const { newProject } = operated;

/** Keys of the projects whose key the service refuses. */
const refused: Record<string, string> = {};
function refuseKey(project: Project): void {
  refused[project.id] = 'another key';
  operated.core.simulator.update({ apiKeys: refused });
}
function acceptKey(project: Project): void {
  Reflect.deleteProperty(refused, project.id);
  operated.core.simulator.update({ apiKeys: refused });
}

const statusesOf = ({ ledger }: Project) => ledger.map(({ status }) => status);
const everyoneIsBlocked = (followUps: FollowUpHandle[], reason: string) =>
  Promise.all(followUps.map((followUp) => reaches(followUp, 'blocked', reason)));

describe.concurrent('a project whose messages the service refuses', () => {
  const forms = {
    'a Retry-After of 2 s': { headers: { 'retry-after': '2' } },
    'no Retry-After': {},
  } as const;
  test.each(Object.entries(forms))(
    'with 429 and %s stands still, lets one message probe, and the others follow it',
    async (_, form) => {
      const project = newProject();
      await project.openBudget();
      operated.core.simulator.failNext({ method: 'POST', projectId: project.id, how: { status: 429, ...form } });
      const probe = await project.start('probe');
      const paused = await eventually('it is paused', async () => (await project.status()).paused);
      expect(paused.reasons).toEqual(['limited']);
      const lastsMs = Date.parse(paused.until ?? '') - Date.parse(paused.since);
      expect(lastsMs).toBe('headers' in form ? 2_000 : 30_000);
      // The answer to the probe is held, so that nobody can follow it yet.
      const letGo = project.holdMessages('probe', 'received');
      const others = await project.startMany(4);
      await project.waiting(4);
      await everyoneIsBlocked(others, 'limited');
      expect(await shownState(others[0] as FollowUpHandle)).toBe('blocked');
      await eventually('the probe is on its way', async () => (await project.status()).unsettled === 1);
      expect((await project.status()).waitingTotal).toBe(4);
      expect(statusesOf(project)).toEqual([429]);
      letGo();
      await project.expectGoodEnds([probe, ...others]);
      expect(statusesOf(project)).toEqual([429, 200, 200, 200, 200, 200]);
      expect((await project.status()).paused).toBeUndefined();
    },
  );

  test('because of its key says so, and all are delivered soon after the key is right and an operator resumes', async () => {
    const project = newProject();
    await project.openBudget();
    const letGo = project.holdMessages('first', 'received');
    const first = await project.start('first');
    await reaches(first, 'sending');
    // The read before the send still had the right key.
    refuseKey(project);
    letGo();
    await eventually('it is paused', async () => (await project.status()).paused?.reasons.includes('credentials'));
    await reaches(first, 'blocked', 'credentials');
    expect(await shownState(first)).toBe('blocked');
    expect(statusesOf(project)).toEqual([401]);
    acceptKey(project);
    const others = await project.startMany(3);
    await project.resume();
    await project.expectGoodEnds([first, ...others]);
    expect(statusesOf(project)).toEqual([401, 200, 200, 200, 200]);
    expect((await project.status()).paused).toBeUndefined();
  });
});

describe.concurrent('a follow-up whose job cannot be read before the send', () => {
  test('because of the key waits in line and says so, and goes on when the key is right', async () => {
    const project = newProject();
    await project.openBudget();
    refuseKey(project);
    const followUps = await project.startMany(4);
    await everyoneIsBlocked(followUps, 'credentials');
    const { lastError } = await progressOf(followUps[0] as FollowUpHandle);
    expect(lastError?.message).toContain('401');
    expect(await shownState(followUps[0] as FollowUpHandle)).toBe('blocked');
    const { paused, waitingTotal } = await project.status();
    expect(paused?.reasons).toEqual(['credentials']);
    expect(waitingTotal).toBe(4);
    acceptKey(project);
    await project.resume();
    await project.expectGoodEnds(followUps);
    expect(statusesOf(project)).toEqual([200, 200, 200, 200]);
  });

  test('because of a 429 waits for as long as Retry-After says', async () => {
    const project = newProject();
    await project.openBudget();
    const limited = { status: 429, headers: { 'retry-after': '2' } };
    operated.core.simulator.failNext({ method: 'GET', projectId: project.id, how: limited });
    const followUp = await project.start();
    const paused = await eventually('it is paused', async () => (await project.status()).paused);
    expect(Date.parse(paused.until ?? '') - Date.parse(paused.since)).toBe(2_000);
    await project.expectGoodEnds([followUp]);
    expect(statusesOf(project)).toEqual([200]);
  });

  const faults = {
    'an error of the service': { how: { status: 500 } },
    'a connection that is reset': { how: 'reset' },
  } as const;
  test.each(Object.entries(faults))('because of %s is blocked and goes on', async (_, { how }) => {
    const project = newProject();
    await project.openBudget();
    operated.core.simulator.failNext({ method: 'GET', projectId: project.id, how, times: 3 });
    const followUp = await project.start();
    const { lastError } = await reaches(followUp, 'blocked', 'service');
    expect(lastError).toBeDefined();
    await project.expectGoodEnds([followUp]);
    expect(project.ledger.length).toBe(1);
  });
});
