import type { WorkflowHandle } from '@temporalio/client';
import { describe, expect, test } from 'vitest';
import { eventually } from '../../support/eventually.js';
import type { CoreOptions } from './core-rig.js';
import { operatedCore, progressOf, reaches, shownState } from './operated-core.js';

/**
 * Events of a workflow. Tasks that only keep another one alive, or time out because the worker has just dropped the
 * workflow from its cache, come from a busy machine, and are left out.
 */
async function eventsOf(workflow: WorkflowHandle): Promise<number> {
  const events = (await workflow.fetchHistory()).events ?? [];
  const isNews = (index: number): boolean =>
    !events[index]?.workflowTaskScheduledEventAttributes &&
    !events[index]?.workflowTaskStartedEventAttributes &&
    !events[index]?.workflowTaskCompletedEventAttributes &&
    !events[index]?.workflowTaskTimedOutEventAttributes;
  const news = events.filter((_, index) => isNews(index));
  const tasks = events.filter(
    ({ workflowTaskCompletedEventAttributes: completed }, index) => completed && isNews(index + 1),
  );
  return news.length + 3 * tasks.length;
}

/** What must work while nothing goes wrong. Call it at the top level of a test file. */
export function testHappyPaths(options: Omit<CoreOptions, 'address'> = {}): void {
  const { newProject } = operatedCore(options);

  describe.concurrent('a project on a real server', () => {
    test('spends at most 24 events on a follow-up once its budget runs', async () => {
      const project = newProject();
      await project.openBudget();
      const followUp = await project.start();
      const [result] = await project.expectGoodEnds([followUp]);
      expect(result).toMatchObject({ delivery: 'sent', prLinkChanged: true });
      expect(await shownState(followUp)).toBe('completed');
      expect(await eventsOf(followUp)).toBeLessThanOrEqual(24);
    });

    test('delivers each of 20 follow-ups that start together once', async () => {
      const project = newProject();
      await project.expectGoodEnds(await project.startMany(20));
      expect(project.delivered.length).toBe(20);
    });

    test('gives five follow-ups for one job one turn each, and each returns the link of its own turn', async () => {
      const project = newProject();
      project.addJob('job');
      const followUps = await Promise.all(Array.from({ length: 5 }, () => project.start('job')));
      const results = await project.expectGoodEnds(followUps);
      const links = results.map(({ prLink }) => prLink?.split('/').at(-1));
      // The job had the first before all of them.
      expect(links.sort()).toEqual(['2', '3', '4', '5', '6']);
      expect(results.map(({ prLinkChanged }) => prLinkChanged)).toEqual([true, true, true, true, true]);
    });

    test('shows the positions of those who wait, and sends in that order when the window frees', async () => {
      const project = newProject();
      await project.openBudget({ limit: 1 });
      const first = await project.start('first');
      await project.deliveries(1);
      const second = await project.start('second');
      await eventually('the second is the next', async () => (await progressOf(second)).position === 1);
      const third = await project.start('third');
      await eventually('the third waits behind it', async () => (await progressOf(third)).position === 2);
      const { expectedSendAt } = await reaches(third, 'waiting-for-budget', 'slot');
      expect(await shownState(third)).toBe('waiting-for-budget');
      const { used, limit, waiting, nextFreeSlotAt } = await project.status();
      expect({ used, limit, line: waiting.map(({ position }) => position) }).toEqual({
        used: 1,
        limit: 1,
        line: [1, 2],
      });
      // The first slot is free after an hour, and nobody can tell about the second one.
      expect(nextFreeSlotAt).toBeDefined();
      expect(expectedSendAt).toBeUndefined();
      await project.setLimit({ window: '1s' });
      await project.expectGoodEnds([first, second, third], { limit: 1, windowMs: 1_000 });
      expect(project.delivered).toEqual(['first', 'second', 'third']);
    });

    test('sends interactive follow-ups first, and leaves the reserve free of the batch lane', async () => {
      const project = newProject();
      await project.openBudget({ limit: 3, reserve: 1 });
      await project.pause();
      const batch = await project.startMany(3, 'batch', { lane: 'batch' });
      await project.waiting(3);
      const interactive = await project.startMany(2, 'interactive');
      await project.waiting(5);
      await project.resume();
      await project.deliveries(2);
      await eventually('both are settled', async () => (await project.status()).unsettled === 0);
      const { waitingTotal, waitingInBatchLane, used } = await project.status();
      expect({ waitingTotal, waitingInBatchLane, used }).toEqual({ waitingTotal: 3, waitingInBatchLane: 3, used: 2 });
      expect(project.delivered.every((jobId) => jobId.startsWith('interactive'))).toBe(true);
      await project.setLimit({ window: '1s' });
      await project.expectGoodEnds([...batch, ...interactive], { limit: 3, windowMs: 1_000 });
    });

    test('never exceeds a small limit in any window while it works off a backlog', async () => {
      const project = newProject();
      const settings = { limit: 3, windowMs: 3_000 };
      const followUps = await project.openBacklog(11, settings);
      await project.resume();
      await project.expectGoodEnds(followUps, settings);
    });
  });
}
