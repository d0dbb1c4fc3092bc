import type { Client } from '@temporalio/client';
import type { ListedSend } from '../budget/counting.js';
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
  const running = `(${IS_OPEN} AND ${SearchAttribute.state.name} IS NOT NULL)`;
  // Server 1.29 also matches running workflows by CloseTime.
  const closed = `(${HAS_ENDED} AND CloseTime >= '${iso(sinceMs)}')`;
  const ofProject = `WorkflowType = '${WorkflowType.followUp}' AND ${SearchAttribute.projectId.name} = '${projectId}'`;
  const found: { send: ListedSend; closedAtMs: number }[] = [];
  for await (const each of client.workflow.list({ query: `${ofProject} AND (${running} OR ${closed})` })) {
    const { name: status } = each.status;
    const isRunning = isOpen(each.status);
    const shown = each.typedSearchAttributes.get(SearchAttribute.state);
    const lastMs = each.typedSearchAttributes.get(SearchAttribute.lastSendAt)?.getTime();
    // A follow-up ends as Canceled only if nothing was delivered. Whatever closed without a time never sent.
    const isUnsent = shown === 'not-sent' || status === 'CANCELLED' || lastMs === undefined;
    if (!isRunning && isUnsent) continue;
    const isWaiting = isRunning && waitingStates.some((waiting) => waiting === shown);
    // What one that waits sent before then uses no slot.
    const sentAtMs = isWaiting && (lastMs ?? 0) < sinceMs ? undefined : lastMs;
    const hasSent = sentAtMs !== undefined || sendingStates.some((sending) => sending === shown);
    if (!hasSent && !isWaiting) continue;
    const closedAtMs = each.closeTime?.getTime() ?? (hasSent ? Number.MAX_SAFE_INTEGER : 0);
    found.push({ send: defined({ workflowId: each.workflowId, isRunning, isWaiting, sentAtMs }), closedAtMs });
  }
  const all = found.sort((a, b) => a.closedAtMs - b.closedAtMs).map(({ send }) => send);
  const isSince = ({ isWaiting, sentAtMs }: ListedSend) => (sentAtMs ?? (isWaiting ? 0 : Infinity)) >= sinceMs;
  const others = all.slice(0, -MAX_LISTED).filter(isSince).length;
  return { sends: all.slice(-MAX_LISTED), others };
}
