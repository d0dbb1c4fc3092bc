import type { Client } from '@temporalio/client';
import { countOnce, type ListedFollowUp } from '../budget/counting.js';
import type { RecentSends } from '../budget/loop.js';
import { defined, iso } from '../common/index.js';
import { SearchAttribute, sendingStates, waitingStates, WorkflowType } from '../contract/index.js';
import { HAS_ENDED, IS_OPEN, isOpen } from '../temporal/lookups.js';

/** A budget remembers no more sends than this; the rest are only counted. */
const MAX_LISTED = 2_000;

export interface SendsQuery {
  projectId: string;
  sinceMs: number;
}

/**
 * Lists follow-ups of a project that may have sent: those that closed since `sinceMs` and had begun to send, and
 * running ones that show a state, also if they wait: it may lag behind a grant.
 */
export async function listSends(
  client: Client,
  { projectId, sinceMs }: SendsQuery,
): Promise<Pick<RecentSends, 'sends' | 'others'>> {
  const openFilter = `(${IS_OPEN} AND ${SearchAttribute.state.name} IS NOT NULL)`;
  // Server 1.29 also matches running workflows by CloseTime.
  const closedFilter = `(${HAS_ENDED} AND CloseTime >= '${iso(sinceMs)}')`;
  const ofProject = `WorkflowType = '${WorkflowType.followUp}' AND ${SearchAttribute.projectId.name} = '${projectId}'`;
  const found: (ListedFollowUp & { closedAtMs: number })[] = [];
  for await (const each of client.workflow.list({ query: `${ofProject} AND (${openFilter} OR ${closedFilter})` })) {
    const { name: status } = each.status;
    const isRunning = isOpen(each.status);
    const shown = each.typedSearchAttributes.get(SearchAttribute.state);
    const lastMs = each.typedSearchAttributes.get(SearchAttribute.lastSendAt)?.getTime();
    // A follow-up ends as Canceled only if nothing was delivered. Whatever closed without a time never sent.
    const isUnsent = shown === 'not-sent' || status === 'CANCELLED' || lastMs === undefined;
    if (!isRunning && isUnsent) continue;
    const isWaiting = isRunning && waitingStates.some((state) => state === shown);
    // What one that waits sent before then uses no slot.
    const sentAtMs = isWaiting && (lastMs ?? 0) < sinceMs ? undefined : lastMs;
    const hasSent = sentAtMs !== undefined || sendingStates.some((state) => state === shown);
    if (!hasSent && !isWaiting) continue;
    const closedAtMs = each.closeTime?.getTime() ?? Infinity;
    found.push(defined({ workflowId: each.workflowId, isRunning, isWaiting, sentAtMs, closedAtMs }));
  }
  const sends = countOnce(found);
  const hasSentSince = ({ isWaiting, sentAtMs = isWaiting ? 0 : Infinity }: ListedFollowUp) => sentAtMs >= sinceMs;
  return { sends: sends.slice(-MAX_LISTED), others: sends.slice(0, -MAX_LISTED).filter(hasSentSince).length };
}
