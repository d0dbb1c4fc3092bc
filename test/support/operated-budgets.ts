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

  return {
    /** Set once the tests run. */
    get stack() {
      return stack;
    },
    newProject: () => `op-${randomUUID().slice(0, 8)}`,
    workflowOf: (projectId: string) => stack.client.workflow.getHandle(projectBudgetWorkflowId(projectId)),
    start: (projectId: string, count: number, from = 0): Promise<StartedFollowUp[]> =>
      Promise.all(
        Array.from({ length: count }, (_, index) =>
          stack.followUps.start({ projectId, jobId: `job-${from + index}`, prompt: 'Add tests.', ...FAST }),
        ),
      ),
    waits: (projectId: string, count: number) =>
      eventually(`${count} wait`, async () => {
        const status = await stack.followUps.budget(projectId).status();
        return status?.waitingTotal === count && status.unsettled === 0;
      }),
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
