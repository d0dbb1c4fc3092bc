import { ApplicationFailure } from '@temporalio/activity';
import { defined } from '../common/index.js';
import { comparedFields, knownFields } from '../follow-up/judge.js';
import { reasonAgainst, type SlotRequest, type SlotResult } from '../follow-up/port.js';
import { type Ask, type AskReply, slotReplySchema } from '../protocol/index.js';
import { describeGrpcError } from '../temporal/grpc.js';
import { ownRun } from './activity-context.js';
import { type Budgets, BudgetStoppedError } from './budgets.js';
import type { ActivityDependencies } from './dependencies.js';
import { toRead } from './job-read.js';

/** Interval at which a follow-up asks a stopped budget again. */
const STOPPED_RETRY = '1m';

/**
 * The activity that reads the job and asks the budget for a slot, and for its place among the follow-ups to the job. If
 * the service refuses the read, the follow-up waits in line.
 *
 * @throws ApplicationFailure with a `WaitReason` or a `BlockReason` as its type, if the job cannot be read for
 *   another reason or the budget does not reply
 */
export function createAskForSlot(dependencies: ActivityDependencies) {
  const { agentJobs, leaseMs, drainMs, maxLimit, linksArePrivate } = dependencies;
  const isPrivate = linksArePrivate && ({ linksArePrivate } as const);

  return async function askForSlot(request: SlotRequest): Promise<SlotResult> {
    const { projectId, jobId, whenActive } = request;
    const { workflowId, runId } = ownRun();
    const isOfAnotherRun = request.runId !== runId;
    const isInDoubt = request.isInDoubt || isOfAnotherRun;
    const read = toRead(await agentJobs.getJob({ projectId, jobId }));
    if (read.kind === 'notFound') return read;
    if (read.kind === 'failed' && !read.refused) {
      const { reason: type, message, retryAfterMs: nextRetryDelay } = read;
      throw ApplicationFailure.create(defined({ type, message, nextRetryDelay }));
    }
    const job = read.kind === 'job' ? read.job : undefined;
    const isArchived = job?.status === 'archived';
    if (isArchived && !isInDoubt) return { kind: 'archived', job: knownFields(job) };
    const isUnready = job !== undefined && reasonAgainst(job, whenActive) !== undefined;
    // In doubt, an archived job counts as one at work: neither takes a message.
    const jobIs = job && whenActive === 'wait' && ({ jobIs: isUnready ? 'at-work' : 'at-rest' } as const);
    const mayHaveSent = request.ask.mayHaveSent || isOfAnotherRun;
    const own = { workflowId, runId, leaseMs, drainMs, maxLimit };
    const refused = read.kind === 'failed' && read.refused;
    const reply = await ask(dependencies.budgets, projectId, {
      ...request.ask,
      mayHaveSent,
      ...own,
      ...jobIs,
      ...refused,
    });
    const slot = isArchived ? slotReplySchema.safeParse(reply).data : undefined;
    if (isArchived && slot) return { kind: 'archived', job: knownFields(job), reply: slot };
    const found = isUnready ? { unreadyJob: knownFields(job) } : job && { jobBefore: comparedFields(job) };
    const refusalMessage = read.kind === 'failed' ? read.message : undefined;
    return { kind: 'asked', ...found, ...defined({ refusalMessage }), reply, ...isPrivate };
  };
}

/** Asks the budget. The reason for a failure shows in the Temporal UI. */
async function ask(budgets: Budgets, projectId: string, request: Ask): Promise<AskReply> {
  try {
    return await budgets.ask(projectId, request);
  } catch (error) {
    if (error instanceof BudgetStoppedError) {
      const { message } = error;
      throw ApplicationFailure.create({ type: 'budget-stopped', message, nextRetryDelay: STOPPED_RETRY });
    }
    const message = `The budget of project ${projectId} does not reply: ${describeGrpcError(error)}`;
    throw ApplicationFailure.create({ type: 'budget-silent', message });
  }
}
