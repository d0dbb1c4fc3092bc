import { makeContinueAsNewFunc, type Workflow, workflowInfo } from '@temporalio/workflow';

/**
 * Events after which a run continues as new, well before the server suggests it at 4,096. A worker that takes a workflow
 * over first replays its whole run. For a budget of 4,300 events with 160 waiters that took 5 to 7 s on two busy cores
 * (`npm run chaos -- --only restart`), and in that time it answered nobody.
 */
const MOST_EVENTS_A_RUN = 1_000;

/**
 * Whether a run should continue as new: because it is long, or because new runs belong on another version of the worker.
 * For workflows that others wait for.
 */
export function isNextRunDue(): boolean {
  const { continueAsNewSuggested, historyLength, targetWorkerDeploymentVersionChanged } = workflowInfo();
  return continueAsNewSuggested || targetWorkerDeploymentVersionChanged || historyLength >= MOST_EVENTS_A_RUN;
}

/**
 * Continues as new. With worker versions, the next run begins on the version that new workflows get, and stays there;
 * otherwise, it would keep the version of this run.
 */
export function continueAsNew<W extends Workflow>(...args: Parameters<W>): Promise<never> {
  return makeContinueAsNewFunc<W>({ initialVersioningBehavior: 'AUTO_UPGRADE' })(...args);
}

/** Whether this run continues another one, so that its second argument is the state of that run. */
export function isContinued(): boolean {
  return workflowInfo().continuedFromExecutionRunId !== undefined;
}
