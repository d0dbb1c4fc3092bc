import type { Client, WorkflowExecutionDescription } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';

const AT_ONCE = 10;

/** Like `Promise.all(items.map(work))`, ten at a time: each call costs the server, and often a worker, a question. */
export async function fewAtATime<Item, Answer>(
  items: readonly Item[],
  work: (item: Item) => Promise<Answer>,
): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (let next = 0; next < items.length; next += AT_ONCE) {
    answers.push(...(await Promise.all(items.slice(next, next + AT_ONCE).map(work))));
  }
  return answers;
}

/** The newest run of a workflow; `undefined` if there is no such workflow. */
export async function describeIfKnown(
  client: Client,
  workflowId: string,
): Promise<WorkflowExecutionDescription | undefined> {
  try {
    return await client.workflow.getHandle(workflowId).describe();
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
}
