import type { Info } from '@temporalio/activity';
import type { Client } from '@temporalio/client';
import { encodePayloads, readRunStart } from '../client/history.js';
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
  noteGrant(info: Pick<Info, 'taskToken' | 'workflowExecution'>, mark: GrantMark): Promise<void>;
}

/** Gives activities access to their own runs, in the client's namespace. */
export function createOwnRun(client: Client): OwnRun {
  const { namespace } = client.options;
  const withDeadline = <T>(call: () => Promise<T>) => client.withDeadline(Date.now() + CALL_DEADLINE_MS, call);
  return {
    async readPrompt({ workflowExecution }) {
      const { workflowId = '', runId = '' } = workflowExecution ?? {};
      const [input] = await withDeadline(() => readRunStart(client, workflowId, runId));
      const { prompt } = (input ?? {}) as { prompt?: unknown };
      if (typeof prompt !== 'string') throw new Error('the run has no prompt in its input');
      return prompt;
    },
    async noteGrant({ taskToken, workflowExecution }, mark) {
      const details = { payloads: await encodePayloads(client, workflowExecution?.workflowId ?? '', [mark]) };
      await withDeadline(() => client.workflowService.recordActivityTaskHeartbeat({ namespace, taskToken, details }));
    },
  };
}
