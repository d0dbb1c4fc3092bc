import { workflowInfo } from '@temporalio/workflow';

/**
 * Events after which a run continues as new, well before the server suggests it at 4,096. Another worker that takes a
 * workflow over replays its whole run first: for a budget of 4,300 events with 160 waiters that took 5 to 7 s on two
 * busy cores (`npm run chaos -- --only restart`), in which it answered nobody.
 */
const MOST_EVENTS_A_RUN = 1_000;

/** Whether a run has become so long that it should continue as new. For workflows that others wait for. */
export function isRunLong(): boolean {
  const { continueAsNewSuggested, historyLength } = workflowInfo();
  return continueAsNewSuggested || historyLength >= MOST_EVENTS_A_RUN;
}
