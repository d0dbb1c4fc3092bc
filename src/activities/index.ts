import type { Client } from '@temporalio/client';
import type { BudgetWord } from '../contract/protocol.js';
import { createLookUps } from './batch-look-ups.js';
import { createJobReads } from './read-job.js';
import { createSendFollowUp, type SendFollowUpDependencies } from './send-follow-up.js';

export type { LookedUpPart } from './batch-look-ups.js';
export { createBudgetClient, type Ask, type BudgetClient } from './budget-client.js';
export { createOwnRun } from './own-run.js';

/** What the activities need from the process that runs them. */
export interface ActivityDependencies extends SendFollowUpDependencies {
  /** Start-to-close timeout of the send activity: the lease, and 15 s to settle. */
  sendStartToCloseMs: number;
  /** Whether links to pull requests are kept out of search attributes. @default false */
  linksArePrivate?: boolean;
  /** With which batches look up what they missed. */
  temporal: Client;
}

/** The activities of the workflows `followUp`, `followUpBatch` and `followUpBatchPart`. */
export function createActivities(dependencies: ActivityDependencies) {
  return {
    ...createJobReads(dependencies),
    sendFollowUp: createSendFollowUp(dependencies),
    /** Tells the project's budget something. Returns whether there is a running budget. */
    tellBudget: ({ projectId, ...word }: { projectId: string } & BudgetWord) =>
      dependencies.budget.tell(projectId, word, { isUrgent: false }),
    ...createLookUps(dependencies.temporal),
  };
}

export type Activities = ReturnType<typeof createActivities>;
