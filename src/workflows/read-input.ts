import {
  type ApplicationFailure,
  CancellationScope,
  setCurrentDetails,
  setHandler,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import { z } from 'zod';
import { hash64, toMarkdown } from '../common/index.js';
import {
  type Delivered,
  endOf,
  FailureType,
  followUpInputSchema,
  type FollowUpProgress,
  type FollowUpSettings,
  idSchema,
  type InputIssue,
  parseFollowUpWorkflowId,
  parseInput,
  progressQuery,
  SearchAttribute,
} from '../contract/index.js';
import { describeFollowUp } from '../follow-up/follow-up-details.js';
import { invalidInput } from './failures.js';
import { wasDelivered } from './follow-up-port.js';

/**
 * Parses the input of a follow-up. The workflow id must name the same project and job.
 *
 * @param others issues with the webhook targets
 * @throws ApplicationFailure `InvalidInput`, with what is known of `delivered`
 */
export async function readInput(input: unknown, others: readonly InputIssue[]): Promise<FollowUpSettings> {
  const parsed = parseInput(followUpInputSchema, input);
  const issues = [...(parsed.ok ? [] : parsed.issues), ...others];
  const { workflowId } = workflowInfo();
  const parts = parseFollowUpWorkflowId(workflowId);
  const ids = readIds(input, parts);
  const isNamed = parts !== undefined && parts.projectId === ids.projectId && parts.jobId === ids.jobId;
  if (!isNamed) {
    const id = `follow-up/${ids.projectId ?? 'PROJECT'}/${ids.jobId ?? 'JOB'}/KEY`;
    issues.push({ field: 'workflowId', message: `must be ${id} (given ${JSON.stringify(workflowId)})` });
  }
  if (parsed.ok && issues.length === 0) return parsed.value;
  throw refuse(ids, issues, isNamed ? await deliveredBefore(parts.projectId, input) : 'no');
}

/** Whether an earlier run of this id has delivered the message: the key may have been used before. */
async function deliveredBefore(projectId: string, input: unknown): Promise<Delivered> {
  const { prompt } = z.object({ prompt: z.string() }).safeParse(input).data ?? {};
  if (prompt === undefined) return 'no';
  return (await CancellationScope.nonCancellable(() => wasDelivered(projectId, hash64(prompt)))) ?? 'unknown';
}

/** Shows as much of a refused follow-up as its input allows, so that people can find it and see what is wrong. */
function refuse({ projectId, jobId }: KnownIds, issues: InputIssue[], delivered: Delivered): ApplicationFailure {
  const refusal = invalidInput(issues, delivered);
  const { message } = refusal;
  const ended = endOf({ type: FailureType.InvalidInput, message, delivered });
  upsertSearchAttributes([
    ...(projectId === undefined ? [] : [{ key: SearchAttribute.projectId, value: projectId }]),
    ...(jobId === undefined ? [] : [{ key: SearchAttribute.jobId, value: jobId }]),
    { key: SearchAttribute.state, value: ended.state },
  ]);
  if (projectId !== undefined && jobId !== undefined) {
    const learnedAt = new Date().toISOString();
    const progress: FollowUpProgress = { projectId, jobId, ...ended, learnedAt, polls: 0 };
    setHandler(progressQuery, () => progress);
    const { workflowId } = workflowInfo();
    const nowMs = Date.now();
    setCurrentDetails(toMarkdown((at) => describeFollowUp(progress, workflowId, at, nowMs), nowMs));
  }
  return refusal;
}

interface KnownIds {
  projectId: string | undefined;
  jobId: string | undefined;
}

/** The valid ids of an input; for the others, those of the workflow id. */
export function readIds(input: unknown, parts: Partial<KnownIds> | undefined): KnownIds {
  const fields = z.object({ projectId: z.unknown(), jobId: z.unknown() }).partial().safeParse(input).data;
  const [projectId, jobId] = [idSchema.safeParse(fields?.projectId).data, idSchema.safeParse(fields?.jobId).data];
  return { projectId: projectId ?? parts?.projectId, jobId: jobId ?? parts?.jobId };
}
