import { z } from 'zod';
import { defined } from '../common/index.js';
import { WorkflowIdPrefix } from './names.js';
import type { InputIssue } from './validation.js';

/**
 * Ids that are safe in a URL path and in a workflow id, including all nanoids. Deliberately strict: URL normalisation
 * resolves even a percent-encoded `..`, so an id with it could reach another endpoint.
 */
export const idSchema = z
  .string()
  .regex(/^[A-Za-z0-9_-][A-Za-z0-9._~-]{0,127}$/, {
    error: 'must be 1 to 128 of A-Z a-z 0-9 . _ ~ -, not starting with . or ~',
    abort: true,
  })
  .refine((id) => !id.includes('..'), 'must not contain ".."')
  // As a key, it would set an object's prototype.
  .refine((id) => id !== '__proto__', 'must not be "__proto__"');

/** Like {@link idSchema}, but with `:`. A key makes a follow-up unique within its job. */
export const keySchema = z
  .string()
  .regex(/^[A-Za-z0-9_-][A-Za-z0-9._~:-]{0,127}$/, {
    error: 'must be 1 to 128 of A-Z a-z 0-9 . _ ~ : -, not starting with . ~ or :',
    abort: true,
  })
  .refine((key) => !key.includes('..'), 'must not contain ".."');

/** Id of a batch. With `:` and an index, it forms an item's key of at most 128 characters. */
export const batchIdSchema = keySchema.max(120, 'must be at most 120 characters');

/** The three parts of a follow-up's workflow id. */
export interface FollowUpIdParts {
  projectId: string;
  jobId: string;
  /** Unique within the job: the same key means the same follow-up. */
  key: string;
}

/** Workflow id of a follow-up: `follow-up/{projectId}/{jobId}/{key}`. */
export function followUpWorkflowId({ projectId, jobId, key }: FollowUpIdParts): string {
  return `${WorkflowIdPrefix.followUp}${projectId}/${jobId}/${key}`;
}

/** Longest workflow id: Temporal's SQL stores keep ids in columns of 255 characters. */
const MAX_WORKFLOW_ID_LENGTH = 255;

/** The issue with ids that are valid but too long together, if they are. */
export function workflowIdIssue(parts: FollowUpIdParts): InputIssue | undefined {
  const { length } = followUpWorkflowId(parts);
  if (length <= MAX_WORKFLOW_ID_LENGTH) return undefined;
  const max = MAX_WORKFLOW_ID_LENGTH - followUpWorkflowId({ projectId: '', jobId: '', key: '' }).length;
  const lengths = `projectId ${parts.projectId.length}, jobId ${parts.jobId.length}, key ${parts.key.length}`;
  const message =
    `would have ${length} characters, and Temporal keeps ${MAX_WORKFLOW_ID_LENGTH}: projectId, jobId and key must ` +
    `have at most ${max} together (given ${lengths})`;
  return { field: 'workflowId', message };
}

/** The path segments of a workflow id after this prefix; empty for another prefix. */
function pathOf(workflowId: string, prefix: string): string[] {
  return workflowId.startsWith(prefix) ? workflowId.slice(prefix.length).split('/') : [];
}

const followUpPath = z.tuple([idSchema, idSchema, keySchema]);

/** Inverse of {@link followUpWorkflowId}; `undefined` for any other text. */
export function parseFollowUpWorkflowId(workflowId: string): FollowUpIdParts | undefined {
  const { data } = followUpPath.safeParse(pathOf(workflowId, WorkflowIdPrefix.followUp));
  return data && { projectId: data[0], jobId: data[1], key: data[2] };
}

/** Workflow id of a project's budget: `project-budget/{projectId}`. */
export function projectBudgetWorkflowId(projectId: string): string {
  return `${WorkflowIdPrefix.projectBudget}${projectId}`;
}

/** Inverse of {@link projectBudgetWorkflowId}; `undefined` for any other text. */
export function parseProjectBudgetWorkflowId(workflowId: string): string | undefined {
  const [projectId, ...rest] = pathOf(workflowId, WorkflowIdPrefix.projectBudget);
  return rest.length === 0 ? idSchema.safeParse(projectId).data : undefined;
}

/** Identifies a batch or, with `part`, one of its parts. */
export interface BatchIdParts {
  batchId: string;
  /** Number, from 0, and hash of the items: `0-uEsrHPkfhD2`. */
  part?: string;
}

/** Workflow id of a batch: `follow-up-batch/{batchId}`; of a part: `follow-up-batch/{batchId}/{part}`. */
export function followUpBatchWorkflowId({ batchId, part }: BatchIdParts): string {
  return `${WorkflowIdPrefix.followUpBatch}${batchId}${part === undefined ? '' : `/${part}`}`;
}

const batchPath = z.tuple([
  batchIdSchema,
  z
    .string()
    .regex(/^(0|[1-9]\d{0,6})-[\w-]{11}$/)
    .optional(),
]);

/** Inverse of {@link followUpBatchWorkflowId}; `undefined` for any other text. */
export function parseFollowUpBatchWorkflowId(workflowId: string): BatchIdParts | undefined {
  const { data } = batchPath.safeParse(pathOf(workflowId, WorkflowIdPrefix.followUpBatch));
  return data && { batchId: data[0], ...defined({ part: data[1] }) };
}

/** Key of the follow-up of the item at `index`, from 0. */
export function batchItemKey(batchId: string, index: number): string {
  return `${batchId}:${index}`;
}
