import { z } from 'zod';
import type { InputIssue } from './failures.js';
import { WorkflowIdPrefix } from './names.js';

/**
 * What may stand in a path of the service and in a workflow id. Strict on purpose: `..` normalises away even when it is
 * percent-encoded, so an id with it could reach another endpoint.
 */
export const idSchema = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._~-]{0,127}$/, {
    error: 'must be 1 to 128 of A-Z a-z 0-9 . _ ~ -, starting with a letter or digit',
    abort: true,
  })
  .refine((id) => !id.includes('..'), 'must not contain ".."');

/** Like {@link idSchema}, and `:` is allowed. A key makes a follow-up unique within its job. */
export const keySchema = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._~:-]{0,127}$/, {
    error: 'must be 1 to 128 of A-Z a-z 0-9 . _ ~ : -, starting with a letter or digit',
    abort: true,
  })
  .refine((key) => !key.includes('..'), 'must not contain ".."');

/** Longest id of a batch: with `:` and the index of an item it makes the item's key, at most 128 characters. */
const MAX_BATCH_ID_LENGTH = 120;

/** Id of a batch: as a key, but at most 120 characters. */
export const batchIdSchema = keySchema.refine(
  (id) => id.length <= MAX_BATCH_ID_LENGTH,
  `must be at most ${MAX_BATCH_ID_LENGTH} characters`,
);

/** The three parts of a follow-up's workflow id. */
export interface FollowUpIdParts {
  projectId: string;
  jobId: string;
  /** Unique within the job; the same key is the same follow-up. */
  key: string;
}

/** Workflow id of a follow-up: `follow-up/{projectId}/{jobId}/{key}`. */
export function followUpWorkflowId({ projectId, jobId, key }: FollowUpIdParts): string {
  return `${WorkflowIdPrefix.followUp}${projectId}/${jobId}/${key}`;
}

/** Longest workflow id: Temporal's SQL stores keep ids in columns of 255 characters. */
export const MAX_WORKFLOW_ID_LENGTH = 255;

/** Why no follow-up can have these ids, each of which is good by itself; `undefined` where one can. */
export function workflowIdIssue(parts: FollowUpIdParts): InputIssue | undefined {
  const { length } = followUpWorkflowId(parts);
  if (length <= MAX_WORKFLOW_ID_LENGTH) return undefined;
  const most = MAX_WORKFLOW_ID_LENGTH - followUpWorkflowId({ projectId: '', jobId: '', key: '' }).length;
  const lengths = `projectId ${parts.projectId.length}, jobId ${parts.jobId.length}, key ${parts.key.length}`;
  const message =
    `would have ${length} characters, and Temporal keeps ${MAX_WORKFLOW_ID_LENGTH}: projectId, jobId and key must ` +
    `have at most ${most} together (given ${lengths})`;
  return { field: 'workflowId', message };
}

/** Inverse of {@link followUpWorkflowId}; `undefined` for anything it could not have made. */
export function parseFollowUpWorkflowId(workflowId: string): FollowUpIdParts | undefined {
  if (!workflowId.startsWith(WorkflowIdPrefix.followUp)) return undefined;
  const [projectId, jobId, key, ...rest] = workflowId.slice(WorkflowIdPrefix.followUp.length).split('/');
  if (rest.length > 0) return undefined;
  if (!idSchema.safeParse(projectId).success || !idSchema.safeParse(jobId).success) return undefined;
  if (!keySchema.safeParse(key).success) return undefined;
  return { projectId, jobId, key } as FollowUpIdParts;
}

/** Workflow id of a project's budget: `project-budget/{projectId}`. */
export function projectBudgetWorkflowId(projectId: string): string {
  return `${WorkflowIdPrefix.projectBudget}${projectId}`;
}

/** Inverse of {@link projectBudgetWorkflowId}; `undefined` for anything it could not have made. */
export function parseProjectBudgetWorkflowId(workflowId: string): string | undefined {
  if (!workflowId.startsWith(WorkflowIdPrefix.projectBudget)) return undefined;
  const projectId = workflowId.slice(WorkflowIdPrefix.projectBudget.length);
  return idSchema.safeParse(projectId).success ? projectId : undefined;
}

/** Which workflow of a batch: the batch itself, or where `part` is set one of its parts, numbered from 0. */
export interface BatchIdParts {
  batchId: string;
  part?: number;
}

/** Workflow id of a batch: `follow-up-batch/{batchId}`; of a part: `follow-up-batch/{batchId}/{part}`. */
export function followUpBatchWorkflowId({ batchId, part }: BatchIdParts): string {
  return part === undefined
    ? `${WorkflowIdPrefix.followUpBatch}${batchId}`
    : `${WorkflowIdPrefix.followUpBatch}${batchId}/${part}`;
}

/** Inverse of {@link followUpBatchWorkflowId}; `undefined` for anything it could not have made. */
export function parseFollowUpBatchWorkflowId(workflowId: string): BatchIdParts | undefined {
  if (!workflowId.startsWith(WorkflowIdPrefix.followUpBatch)) return undefined;
  const [batchId, part, ...rest] = workflowId.slice(WorkflowIdPrefix.followUpBatch.length).split('/');
  if (batchId === undefined || rest.length > 0 || !batchIdSchema.safeParse(batchId).success) return undefined;
  if (part === undefined) return { batchId };
  return /^(0|[1-9]\d{0,6})$/.test(part) ? { batchId, part: Number(part) } : undefined;
}

/** Key of the follow-up that a batch makes of its item at `index`, counted from 0. */
export function batchItemKey(batchId: string, index: number): string {
  return `${batchId}:${index}`;
}

/** Index of a batch's item by its follow-up's key; `undefined` for a key of something else. */
export function parseBatchItemKey(batchId: string, key: string): number | undefined {
  const index = key.startsWith(`${batchId}:`) ? key.slice(batchId.length + 1) : '';
  return /^(0|[1-9]\d{0,6})$/.test(index) ? Number(index) : undefined;
}
