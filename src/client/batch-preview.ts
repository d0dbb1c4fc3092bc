import type { Client } from '@temporalio/client';
import { followUpBatchWorkflowId, type FollowUpInput } from '../contract/index.js';
import { fillItem, templateOf } from '../protocol/index.js';
import { describeIfKnown, fewAtATime } from '../temporal/lookups.js';
import { DIGEST_MEMO } from './batch-handle.js';
import type { BudgetHandle, BudgetUpdate } from './budget-handle.js';
import { checkBatch, type StartBatchInput } from './hand-over.js';
import { callTemporal } from './temporal.js';

/** What a batch would send. */
export interface BatchPreview {
  batchId: string;
  /** Number of items. */
  total: number;
  /** Whether the id was used before: with the same input it is that batch. */
  alreadyStarted: boolean;
  /** Whether it was used with other input, which `startBatch` refuses. */
  inputDiffers: boolean;
  /** In the order of their first items. */
  projects: ProjectPreview[];
}

/** What a batch would send in a project, and the project's budget as it is now. */
export interface ProjectPreview extends BudgetUpdate {
  projectId: string;
  /** Messages that the batch would send in this project; 0 if its id was used before. */
  toSend: number;
}

/** See `FollowUpClient.planBatch`. */
export async function previewBatch(
  client: Client,
  input: StartBatchInput,
  budgetOf: (projectId: string) => BudgetHandle,
): Promise<BatchPreview> {
  const { batchId, firstInput, items, digest } = checkBatch(input);
  const started = await callTemporal(client, () => describeIfKnown(client, followUpBatchWorkflowId({ batchId })));
  const template = templateOf(firstInput);
  const counts = new Map<string, number>();
  for (const item of items) {
    const { projectId } = fillItem(item, template) as FollowUpInput;
    counts.set(projectId, (counts.get(projectId) ?? 0) + (started ? 0 : 1));
  }
  return {
    ...{ batchId, total: items.length, alreadyStarted: started !== undefined },
    inputDiffers: started !== undefined && started.memo?.[DIGEST_MEMO] !== digest,
    projects: await fewAtATime([...counts], async ([projectId, toSend]) => {
      return { projectId, toSend, ...(await budgetOf(projectId).look()) };
    }),
  };
}
