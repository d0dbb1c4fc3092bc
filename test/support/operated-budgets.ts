import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, inject } from 'vitest';
import type { StartedFollowUp } from '../../src/client/index.js';
import { projectBudgetWorkflowId } from '../../src/contract/index.js';
import { eventually } from './eventually.js';
import { FAST, startStack, type Stack } from './stack.js';

/** The limit and window of the budgets of {@link operatedBudgets}. */
export const LIMIT = 3;
export const WINDOW_MS = 4_000;

/** Projects for tests of operator actions on budgets. Call it at the top level of a test file. */
export function operatedBudgets() {
  let stack: Stack;
  beforeAll(async () => {
    stack = await startStack({
      address: inject('temporalAddress'),
      env: { FOLLOW_UP_BUDGET_LIMIT: `${LIMIT}`, FOLLOW_UP_BUDGET_WINDOW: '4s', FOLLOW_UP_MARGIN: '200ms' },
      simulator: { autoCreate: true },
    });
  });
  afterAll(() => stack.stop());

  const ledgerOf = (projectId: string) => stack.simulator.ledger.filter((entry) => entry.projectId === projectId);

  const start = (projectId: string, count: number, from = 0): Promise<StartedFollowUp[]> =>
    Promise.all(
      Array.from({ length: count }, (_, index) =>
        stack.followUps.start({ projectId, jobId: `job-${from + index}`, prompt: 'Add tests.', ...FAST }),
      ),
    );
  const waits = (projectId: string, count: number) =>
    eventually(`${count} wait`, async () => (await stack.followUps.budget(projectId).status())?.waitingTotal === count);

  return {
    /** Set once the tests run. */
    get stack() {
      return stack;
    },
    newProject: () => `op-${randomUUID().slice(0, 8)}`,
    workflowOf: (projectId: string) => stack.client.workflow.getHandle(projectBudgetWorkflowId(projectId)),
    start,
    waits,
    /** Starts follow-ups that all wait when the budget begins to let them go, however slowly they started. */
    startTogether: async (projectId: string, count: number): Promise<StartedFollowUp[]> => {
      const budget = stack.followUps.budget(projectId);
      // A pause starts the budget, with defaults.
      await budget.pause();
      await budget.setLimit({ window: WINDOW_MS });
      const followUps = await start(projectId, count);
      await waits(projectId, count);
      await budget.resume();
      return followUps;
    },
    /** Expects that all complete, that each was sent once, and that no window held more than the limit. */
    endWell: async (projectId: string, followUps: readonly StartedFollowUp[], windowMs = WINDOW_MS): Promise<void> => {
      const results = await Promise.all(followUps.map((followUp) => followUp.result()));
      expect(results.map(({ status, delivery }) => `${status} ${delivery}`)).toEqual(
        followUps.map(() => 'completed sent'),
      );
      const sentTo = ledgerOf(projectId).map(({ jobId }) => jobId);
      expect(sentTo.sort()).toEqual(results.map(({ jobId }) => jobId).sort());
      expect(stack.simulator.maxInAnyWindow(projectId, windowMs)).toBeLessThanOrEqual(LIMIT);
    },
  };
}
