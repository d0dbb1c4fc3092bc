import type { Client } from '@temporalio/client';
import type { AgentJobsClient } from '../agent-jobs/index.js';
import type { BudgetCeiling, BudgetWord } from '../contract/index.js';
import type { BudgetClient } from './budget-client.js';
import { createGetJob, createWarnOfKey } from './get-job.js';
import { createLookUps } from './look-up.js';
import type { OwnRun } from './own-run.js';
import { createSendFollowUp } from './send-follow-up.js';
import { createWatchJob } from './watch-job.js';

export { createBudgetClient, type Ask, type BudgetClient } from './budget-client.js';
export { createOwnRun, type OwnRun } from './own-run.js';
export type { LookedUpPart } from './look-up.js';

/** What the activities need from the process that runs them. */
export interface ActivityDependencies {
  agentJobs: AgentJobsClient;
  budget: BudgetClient;
  ownRun: OwnRun;
  /** Total deadline of one POST. */
  sendTimeoutMs: number;
  /** Lease of a grant: the send timeout and a slack of 30 s. */
  leaseMs: number;
  /** Start-to-close timeout of the send activity: lease and 15 s to settle. */
  sendStartToCloseMs: number;
  /** How long bytes may arrive after the lease. */
  drainMs: number;
  /** The most that any budget may grant, whatever it says itself. @default none */
  ceiling?: BudgetCeiling;
  /** By which batches look up what they were not told. */
  temporal: Client;
}

/** The activities of the workflows `followUp`, `followUpBatch` and `followUpBatchPart`. */
export function createActivities(dependencies: ActivityDependencies) {
  const reading = { ...dependencies, warnOfKey: createWarnOfKey() };
  return {
    getJob: createGetJob(reading),
    watchJob: createWatchJob(reading),
    sendFollowUp: createSendFollowUp(dependencies),
    /** Tells the project's budget; whether there is one that runs. */
    tellBudget: ({ projectId, ...word }: { projectId: string } & BudgetWord) =>
      dependencies.budget.tell(projectId, word),
    ...createLookUps(dependencies.temporal),
  };
}

/** Type of {@link createActivities}' result, for the workflow's proxies. */
export type Activities = ReturnType<typeof createActivities>;
