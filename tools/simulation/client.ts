import { type Client, WorkflowFailedError } from '@temporalio/client';
import {
  ApplicationFailure,
  CancelledFailure,
  defaultPayloadConverter,
  TerminatedFailure,
  WorkflowNotFoundError,
} from '@temporalio/common';
import { type ItemOutcome, SearchAttribute } from '../../src/contract/index.js';
import { Failed } from '../../src/follow-up/failed.js';
import { outcomeOfFailure, outcomeOfResult } from '../../src/protocol/index.js';
import type { Run } from './runs.js';

/** Why a run has no result, as Temporal says it. */
function causeOf({ status, end: { error } }: Run): unknown {
  if (status === 'terminated') return new TerminatedFailure('terminated');
  if (!(error instanceof Failed)) return error;
  const { type, message, delivered } = error;
  if (type === 'Cancelled' && delivered === 'no') return new CancelledFailure(message);
  return ApplicationFailure.create({ type, message, details: [{ delivered }] });
}

/** How a run ended, as its parent learns it. */
export const outcomeOf = (run: Run): ItemOutcome =>
  run.status === 'completed' ? outcomeOfResult(run.end.value) : outcomeOfFailure(causeOf(run));

/** What shipped code that asks Temporal about a batch needs of its client. */
export function clientOf(latest: (workflowId: string) => Run | undefined): Client {
  const find = (workflowId: string): Run => {
    const run = latest(workflowId);
    if (!run) throw new WorkflowNotFoundError('not found', workflowId, undefined);
    return run;
  };
  const getHandle = (workflowId: string) => ({
    async describe() {
      const { runId, status, states, code } = find(workflowId);
      const { memo = {}, batchId } = code.kept ?? {};
      const values = { [SearchAttribute.batchId.name]: batchId, [SearchAttribute.state.name]: states.at(-1)?.state };
      const typedSearchAttributes = { get: ({ name }: { name: string }) => values[name] };
      return { runId, status: { name: status === 'running' ? 'RUNNING' : 'CLOSED' }, memo, typedSearchAttributes };
    },
    async result() {
      const run = find(workflowId);
      if (run.status === 'completed') return run.end.value;
      throw new WorkflowFailedError('failed', causeOf(run) as Error, undefined);
    },
  });
  const getWorkflowExecutionHistory = async ({ execution }: { execution: { workflowId: string } }) => {
    const payloads = [defaultPayloadConverter.toPayload(find(execution.workflowId).code.kept?.input)];
    return { history: { events: [{ workflowExecutionStartedEventAttributes: { input: { payloads } } }] } };
  };
  const loadedDataConverter = { payloadCodecs: [], payloadConverter: defaultPayloadConverter };
  return {
    options: { namespace: 'default', loadedDataConverter },
    withDeadline: (_: number, call: () => unknown) => call(),
    workflow: { getHandle },
    workflowService: { getWorkflowExecutionHistory },
  } as unknown as Client;
}
