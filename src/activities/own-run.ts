import type { Info } from '@temporalio/activity';
import type { Connection } from '@temporalio/client';
import { defaultPayloadConverter } from '@temporalio/common';
import type { GrantMark } from './ask-again.js';

const CALL_DEADLINE_MS = 5_000;

/** What an activity does with the workflow run that it belongs to. */
export interface OwnRun {
  /**
   * Reads the message from the input of the run. It is in the run's first event, so that no other event has to hold it.
   *
   * @throws the server's error, or an error that it does not answer
   */
  readPrompt(info: Pick<Info, 'workflowExecution'>): Promise<string>;
  /**
   * Stores with the server, as a heartbeat's details, that this attempt has been granted its send. Later attempts
   * receive it.
   *
   * @throws if the server did not accept it, for example because it has given up this attempt
   */
  noteGrant(info: Pick<Info, 'taskToken'>, mark: GrantMark): Promise<void>;
}

/** Gives activities access to their own runs, in one Temporal namespace. */
export function createOwnRun({ connection, namespace }: { connection: Connection; namespace: string }): OwnRun {
  const withDeadline = <T>(call: () => Promise<T>) => connection.withDeadline(Date.now() + CALL_DEADLINE_MS, call);
  return {
    async readPrompt({ workflowExecution }) {
      const { workflowId, runId } = workflowExecution ?? {};
      const { history } = await withDeadline(() =>
        connection.workflowService.getWorkflowExecutionHistory({
          namespace,
          execution: { workflowId: workflowId ?? null, runId: runId ?? null },
          maximumPageSize: 1,
        }),
      );
      const [payload] = history?.events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads ?? [];
      const input = payload && defaultPayloadConverter.fromPayload<{ prompt?: unknown }>(payload);
      if (typeof input?.prompt !== 'string') throw new Error('the run has no prompt in its input');
      return input.prompt;
    },
    async noteGrant({ taskToken }, mark) {
      const details = { payloads: [defaultPayloadConverter.toPayload(mark)] };
      await withDeadline(() =>
        connection.workflowService.recordActivityTaskHeartbeat({ namespace, taskToken, details }),
      );
    },
  };
}
