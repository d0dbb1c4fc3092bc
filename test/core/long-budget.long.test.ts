import { describe, expect, test } from 'vitest';
import { tellSignal } from '../../src/contract/protocol.js';
import { eventually } from '../support/eventually.js';
import { operatedCore, type Project } from './support/operated-core.js';

const BOOKED = 900;

/** Books sends of follow-ups with long ids, each to a job of its own. */
async function bookSends(project: Project, count: number): Promise<void> {
  const long = 'x'.repeat(100);
  for (let from = 0; from < count; from += 50) {
    const some = Array.from({ length: 50 }, (_, index) => from + index);
    await Promise.all(
      some.map((number) =>
        project.budget.signal(tellSignal, {
          ...{
            kind: 'settle',
            workflowId: `follow-up/${project.id}/${long}-${number}/${long}`,
            runId: `run-${number}`,
          },
          ...{ sendNumber: 1, outcome: 'sent', atMs: Date.now() },
        }),
      ),
    );
  }
}

describe.each([
  ['with all of its history cached', operatedCore()],
  ['that is replayed at each task', operatedCore({ maxCachedWorkflows: 1 })],
])('a budget %s', (_, { newProject }) => {
  test('continues as new with its line, its sends and its settings', async () => {
    const project = newProject();
    const followUps = await project.openBacklog(12, { limit: 1_000 });
    const { runId } = await project.budget.describe();
    const { remembersSince } = await project.status();
    const gone = followUps.slice(0, 4);
    for (const followUp of gone) await followUp.terminate();
    await bookSends(project, BOOKED);
    // A run has 1,000 events, and these change nothing.
    await Promise.all(Array.from({ length: 300 }, () => project.budget.signal('wake')));
    await eventually('another run has begun', async () => (await project.budget.describe()).runId !== runId);
    await eventually('it has booked all', async () => (await project.status()).used === BOOKED);
    const status = await project.status();
    expect(status).toMatchObject({ limit: 1_000, used: BOOKED, waitingTotal: 12, remembersSince });
    expect(status.paused?.reasons).toEqual(['operator']);
    expect(status.lastSends.length).toBeGreaterThanOrEqual(100);
    expect(project.ledger).toEqual([]);
    await project.resume();
    await project.expectGoodEnds(followUps.slice(4));
    // A grant that nobody received was not used.
    await eventually('all slots are settled', async () => (await project.status()).unsettled === 0);
    expect((await project.status()).used).toBe(BOOKED + 8);
  });
});
