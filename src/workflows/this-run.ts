import { makeContinueAsNewFunc, type Workflow, workflowInfo } from '@temporalio/workflow';

/**
 * Events after which a run continues as new, well below the 4,096 at which the server suggests it. A worker that takes
 * over a workflow replays the whole run before it replies. At 4,300 events and 160 waiters, a budget takes 5 to 7 s for
 * that on two busy cores (`npm run chaos -- --only restart`).
 */
const MAX_EVENTS_PER_RUN = 1_000;

/**
 * Whether a run should continue as new, because it is long or because new runs belong on another worker version. For
 * workflows that others wait for.
 */
export function isNextRunDue(): boolean {
  const { continueAsNewSuggested, historyLength, targetWorkerDeploymentVersionChanged } = workflowInfo();
  return continueAsNewSuggested || targetWorkerDeploymentVersionChanged || historyLength >= MAX_EVENTS_PER_RUN;
}

/**
 * Continues as new. With worker versioning, the next run starts on the version for new workflows instead of this run's
 * version.
 */
export function continueAsNew<W extends Workflow>(...args: Parameters<W>): Promise<never> {
  return makeContinueAsNewFunc<W>({ initialVersioningBehavior: 'AUTO_UPGRADE' })(...args);
}

/** Whether this run follows another, by continue-as-new, a retry policy or a cron schedule. */
export function isContinued(): boolean {
  return workflowInfo().continuedFromExecutionRunId !== undefined;
}

/**
 * Whether the second argument is the state of the previous run. A retry or a cron schedule passes on what somebody has
 * started the workflow with.
 */
export function hasCarriedState(): boolean {
  const { attempt, cronSchedule } = workflowInfo();
  return isContinued() && attempt === 1 && cronSchedule === undefined;
}

/** Whether this run is neither a reset nor a retry of another. */
export function isFirstRun(): boolean {
  const { runId, originalExecutionRunId, attempt } = workflowInfo();
  return runId === originalExecutionRunId && attempt === 1;
}

/** Whether this run's worker has a version, with Temporal's Worker Versioning. */
export function isVersioned(): boolean {
  // Without versioning, the SDK sets its own build id here, of no deployment.
  return !!workflowInfo().currentDeploymentVersion?.deploymentName;
}
